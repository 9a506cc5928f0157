# Lanes: how a kernel is compiled for the CPU executor and run. One row each; the
# build, the installed package and the commands (fuzz/host/lanes.h) take theirs from here.
#
#   attnfuzz_lane(<name> <runtime> <seconds> <in words> [<flag>...])
#
# <runtime>: the sanitizer that its worker is linked with, and that the executor is
# compiled once more for, to tell it what it does (kernels/executor/threads/sanitizer.h): asan,
# msan, tsan; `none`; or `tool`, for a lane that compute-sanitizer is on a GPU. Kernels
# are instrumented, the executor is not.
# <seconds>: what the watchdog gives a call that has no work to do, of processor time.
# <flag>: what kernels are compiled with; a lane without any runs the plain library.
#
# All that have flags count edges, so that a fuzzer explores in any (Target::coverage());
# it adds a twentieth to what they take to compile. A kernel has the lane coverage,
# which finds nothing that plain does not, only if its LANES name it.
set(ATTNFUZZ_LANE_NAMES)
set(ATTNFUZZ_ALL_LANES)   # those of a sanitizer: what ATTNFUZZ_LANES chooses from
set(ATTNFUZZ_SANITIZERS)  # their runtimes, each once
set(ATTNFUZZ_LANE_ROWS)   # C++, for fuzz/host/lanes.cc.in
macro(attnfuzz_lane name runtime seconds words)
  list(APPEND ATTNFUZZ_LANE_NAMES ${name})
  # Global: find_package() may be called in any directory.
  set_property(GLOBAL PROPERTY ATTNFUZZ_LANE_RUNTIME_${name} ${runtime})
  set_property(GLOBAL PROPERTY ATTNFUZZ_LANE_FLAGS_${name} ${ARGN})
  set(_attnfuzz_kind kPlain)
  if("${runtime}" STREQUAL "tool")
    set(_attnfuzz_kind kTool)
  elseif(NOT "${ARGN}" STREQUAL "")
    set(_attnfuzz_kind kBuilt)
    if(NOT "${runtime}" STREQUAL "none")
      set_property(GLOBAL APPEND PROPERTY ATTNFUZZ_LANE_FLAGS_${name} ${counters})
      list(APPEND ATTNFUZZ_ALL_LANES ${name})
      list(APPEND ATTNFUZZ_SANITIZERS ${runtime})
    endif()
  endif()
  string(APPEND ATTNFUZZ_LANE_ROWS "    {\"${name}\", Lane::${_attnfuzz_kind}, \"${runtime}\", ${seconds}, \"${words}\"},\n")
endmacro()

# Numbers of edges are modulo 256, and beside them whether there was one at all: blocks have 128 threads.
set(counters -fsanitize-coverage=edge,inline-8bit-counters,inline-bool-flag)
# Passing on what is not defined is no fault; using it is. Members of libstdc++ that are compiled into it are not
# instrumented: they are compiled with the kernel instead.
set(msan -fsanitize=memory -fno-sanitize-memory-param-retval -D_GLIBCXX_EXTERN_TEMPLATE=0)
set(asan -fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all
         -fsanitize-address-use-after-return=never)

attnfuzz_lane(plain      none  3 "the CPU executor")
attnfuzz_lane(schedules  none  3 "the CPU executor, each case with a random order of threads")
attnfuzz_lane(asan       asan 12 "AddressSanitizer and UndefinedBehaviorSanitizer" ${asan})
attnfuzz_lane(msan       msan 12 "MemorySanitizer, optimised" ${msan})
attnfuzz_lane(msan-O0    msan 12 "MemorySanitizer, not optimised: sees registers that nobody has written" ${msan} -O0)
attnfuzz_lane(tsan       tsan 12 "ThreadSanitizer, with a fiber for each CUDA thread" -fsanitize=thread)
attnfuzz_lane(coverage   none  3 "counts how often each edge of the kernel's code is taken, for campaigns" ${counters})
attnfuzz_lane(memcheck   tool 60 "on a GPU, one case: compute-sanitizer memcheck")
attnfuzz_lane(racecheck  tool 60 "on a GPU, one case: compute-sanitizer racecheck")
attnfuzz_lane(initcheck  tool 60 "on a GPU, one case: compute-sanitizer initcheck")
attnfuzz_lane(synccheck  tool 60 "on a GPU, one case: compute-sanitizer synccheck")
unset(msan)
unset(asan)
unset(counters)
list(REMOVE_DUPLICATES ATTNFUZZ_SANITIZERS)

set(ATTNFUZZ_LANES ${ATTNFUZZ_ALL_LANES} CACHE STRING "Lanes to build besides plain: of ${ATTNFUZZ_ALL_LANES}")
foreach(lane IN LISTS ATTNFUZZ_LANES)
  if(NOT lane IN_LIST ATTNFUZZ_ALL_LANES)
    message(FATAL_ERROR "ATTNFUZZ_LANES has '${lane}', which is none of: ${ATTNFUZZ_ALL_LANES}")
  endif()
endforeach()
set(ATTNFUZZ_WORKERS)  # runtimes that the chosen lanes need a worker of
foreach(lane IN LISTS ATTNFUZZ_LANES)
  get_property(runtime GLOBAL PROPERTY ATTNFUZZ_LANE_RUNTIME_${lane})
  list(APPEND ATTNFUZZ_WORKERS ${runtime})
endforeach()
list(REMOVE_DUPLICATES ATTNFUZZ_WORKERS)

# What a kernel is compiled with in a lane.
function(attnfuzz_lane_options lane out)
  get_property(flags GLOBAL PROPERTY ATTNFUZZ_LANE_FLAGS_${lane})
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# What a worker of a runtime is linked with.
set(ATTNFUZZ_RUNTIME_asan -fsanitize=address,undefined)
set(ATTNFUZZ_RUNTIME_msan -fsanitize=memory)
set(ATTNFUZZ_RUNTIME_tsan -fsanitize=thread)
