# Lanes: how a kernel is compiled for the CPU executor, besides plainly.
#
#   asan      AddressSanitizer and UndefinedBehaviorSanitizer
#   msan      MemorySanitizer, optimised
#   msan-O0   MemorySanitizer, not optimised: sees registers that nobody has written
#   tsan      ThreadSanitizer, with a fiber of its own for each CUDA thread
#   coverage  no sanitizer: counts how often each edge of the code is taken
#
# All of them count edges, so that a fuzzer explores in any (Target::coverage()); it
# adds a twentieth to what they take to compile. A kernel has the lane coverage, which
# finds nothing that plain does not, only if its LANES name it.
#
# Kernels are instrumented, the executor is not: it is compiled once more for
# each sanitizer and tells it what it does (kernels/simt/sanitizer.h). Workers
# are linked with the sanitizer's runtime; msan-O0 shares msan's.
include_guard(GLOBAL)

set(ATTNFUZZ_ALL_LANES asan msan msan-O0 tsan)
set(ATTNFUZZ_LANES ${ATTNFUZZ_ALL_LANES} CACHE STRING "Lanes to build besides plain: of ${ATTNFUZZ_ALL_LANES}")
foreach(lane IN LISTS ATTNFUZZ_LANES)
  if(NOT lane IN_LIST ATTNFUZZ_ALL_LANES)
    message(FATAL_ERROR "ATTNFUZZ_LANES has '${lane}', which is none of: ${ATTNFUZZ_ALL_LANES}")
  endif()
endforeach()

# The lane whose worker and executor serve this one.
function(attnfuzz_lane_worker lane out)
  string(REPLACE "-O0" "" worker ${lane})
  set(${out} ${worker} PARENT_SCOPE)
endfunction()

# What a kernel is compiled with.
function(attnfuzz_lane_options lane out)
  set(asan -fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all
           -fsanitize-address-use-after-return=never)
  # Passing on what is not defined is no fault; using it is. Members of libstdc++ that
  # are compiled into it are not instrumented: they are compiled with the kernel instead.
  set(msan -fsanitize=memory -fno-sanitize-memory-param-retval -D_GLIBCXX_EXTERN_TEMPLATE=0)
  set(msan-O0 ${msan} -O0)
  set(tsan -fsanitize=thread)
  # Numbers modulo 256, and whether there is one at all: blocks have 128 threads.
  set(coverage -fsanitize-coverage=edge,inline-8bit-counters,inline-bool-flag)
  if(NOT lane STREQUAL "coverage")
    list(APPEND ${lane} ${coverage})
  endif()
  set(${out} ${${lane}} PARENT_SCOPE)
endfunction()

# What a worker is linked with.
function(attnfuzz_lane_runtime lane out)
  set(asan -fsanitize=address,undefined)
  set(msan -fsanitize=memory)
  set(tsan -fsanitize=thread)
  set(${out} ${${lane}} PARENT_SCOPE)
endfunction()
