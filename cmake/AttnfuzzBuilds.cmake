# Builds: the ways in which a kernel is compiled and run. Each is one row here. The project, the
# installed package and the commands (fuzz/host/build_kinds.h) use these rows.
#
#   attnfuzz_build_kind(<name> <runtime> <seconds> <in words> [<flag>...])
#
# <runtime>: `asan`, `msan` or `tsan`, the sanitizer that the worker is linked with; `none`; or
# `tool`, for a run under compute-sanitizer on a GPU. For a sanitizer the executor is compiled once
# more, not instrumented, but with calls that tell the sanitizer about its threads
# (kernels/executor/threads/sanitizer.h). Kernels are instrumented.
# <seconds>: the watchdog's limit for a call without work: processor time on the CPU, clock time on
# a GPU.
# <flag>: compiler flags for kernels. A build without flags runs the plain library.
#
# All builds with flags count edges, so that a fuzzer can explore in each of them
# (Target::coverage()). This adds 5 % to their compilation time. The build coverage finds no more
# than plain, so a kernel has it only if its BUILDS name it.
set(ATTNFUZZ_BUILD_NAMES)
set(ATTNFUZZ_ALL_BUILDS)  # all sanitizer builds; ATTNFUZZ_BUILDS is chosen from these
set(ATTNFUZZ_SANITIZERS)  # their runtimes, each once
set(ATTNFUZZ_BUILD_ROWS)  # C++, for fuzz/host/build_kinds.cc.in
macro(attnfuzz_build_kind name runtime seconds words)
  list(APPEND ATTNFUZZ_BUILD_NAMES ${name})
  # Global: find_package() may be called in any directory.
  set_property(GLOBAL PROPERTY ATTNFUZZ_BUILD_RUNTIME_${name} ${runtime})
  set_property(GLOBAL PROPERTY ATTNFUZZ_BUILD_FLAGS_${name} ${ARGN})
  set(_attnfuzz_kind kPlain)
  if("${runtime}" STREQUAL "tool")
    set(_attnfuzz_kind kTool)
  elseif(NOT "${ARGN}" STREQUAL "")
    set(_attnfuzz_kind kBuilt)
    if(NOT "${runtime}" STREQUAL "none")
      set_property(GLOBAL APPEND PROPERTY ATTNFUZZ_BUILD_FLAGS_${name} ${counters})
      list(APPEND ATTNFUZZ_ALL_BUILDS ${name})
      list(APPEND ATTNFUZZ_SANITIZERS ${runtime})
    endif()
  endif()
  string(APPEND ATTNFUZZ_BUILD_ROWS "    {\"${name}\", BuildKind::${_attnfuzz_kind}, \"${runtime}\", ${seconds}, \"${words}\"},\n")
endmacro()

# Edge counters wrap at 256, and blocks have 128 threads. So each edge also has a flag that says
# whether it was taken.
set(counters -fsanitize-coverage=edge,inline-8bit-counters,inline-bool-flag)
# Passing an undefined value is no fault, but using it is. The templates inside libstdc++.so are not
# instrumented, so they are compiled with the kernel instead.
set(msan -fsanitize=memory -fno-sanitize-memory-param-retval -D_GLIBCXX_EXTERN_TEMPLATE=0)
set(asan -fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all
         -fsanitize-address-use-after-return=never)
set(quick $<$<BOOL:${ATTNFUZZ_QUICK}>:-O0>)  # a third of the compilation time, for checks that take five times as long

attnfuzz_build_kind(plain      none  3 "the CPU executor")
attnfuzz_build_kind(schedules  none  3 "the CPU executor, each case with a random order of threads")
attnfuzz_build_kind(asan       asan 12 "AddressSanitizer and UndefinedBehaviorSanitizer" ${asan} ${quick})
attnfuzz_build_kind(msan       msan 12 "MemorySanitizer, optimised" ${msan})
attnfuzz_build_kind(msan-O0    msan 12 "MemorySanitizer, not optimised: sees registers that were never written" ${msan} -O0)
attnfuzz_build_kind(tsan       tsan 12 "ThreadSanitizer, with a fiber for each CUDA thread" -fsanitize=thread)
attnfuzz_build_kind(coverage   none  3 "counts how often each edge of the kernel's code is taken, for campaigns" ${counters})
attnfuzz_build_kind(memcheck   tool 60 "on a GPU, one case: compute-sanitizer memcheck")
attnfuzz_build_kind(racecheck  tool 60 "on a GPU, one case: compute-sanitizer racecheck")
attnfuzz_build_kind(initcheck  tool 60 "on a GPU, one case: compute-sanitizer initcheck")
attnfuzz_build_kind(synccheck  tool 60 "on a GPU, one case: compute-sanitizer synccheck")
unset(msan)
unset(asan)
unset(quick)
unset(counters)
list(REMOVE_DUPLICATES ATTNFUZZ_SANITIZERS)

set(ATTNFUZZ_BUILDS ${ATTNFUZZ_ALL_BUILDS} CACHE STRING "Builds of kernels besides plain: of ${ATTNFUZZ_ALL_BUILDS}")
# Version 0.1 called ATTNFUZZ_BUILDS ATTNFUZZ_LANES. The old name is still accepted.
if(DEFINED CACHE{ATTNFUZZ_LANES})
  message(DEPRECATION "ATTNFUZZ_LANES is now called ATTNFUZZ_BUILDS")
  set_property(CACHE ATTNFUZZ_BUILDS PROPERTY VALUE "${ATTNFUZZ_LANES}")
  unset(ATTNFUZZ_LANES CACHE)
elseif(DEFINED ATTNFUZZ_LANES)
  set(ATTNFUZZ_BUILDS ${ATTNFUZZ_LANES})
endif()
foreach(build_kind IN LISTS ATTNFUZZ_BUILDS)
  if(NOT build_kind IN_LIST ATTNFUZZ_ALL_BUILDS)
    message(FATAL_ERROR "ATTNFUZZ_BUILDS has '${build_kind}', which is none of: ${ATTNFUZZ_ALL_BUILDS}")
  endif()
endforeach()
set(ATTNFUZZ_WORKERS)  # the chosen builds need a worker of each of these runtimes
foreach(build_kind IN LISTS ATTNFUZZ_BUILDS)
  get_property(runtime GLOBAL PROPERTY ATTNFUZZ_BUILD_RUNTIME_${build_kind})
  list(APPEND ATTNFUZZ_WORKERS ${runtime})
endforeach()
list(REMOVE_DUPLICATES ATTNFUZZ_WORKERS)

# The flags that a kernel is compiled with in a build.
function(attnfuzz_build_options build_kind out)
  get_property(flags GLOBAL PROPERTY ATTNFUZZ_BUILD_FLAGS_${build_kind})
  set(${out} ${flags} PARENT_SCOPE)
endfunction()

# The link options of the worker of each runtime.
set(ATTNFUZZ_RUNTIME_asan -fsanitize=address,undefined)
set(ATTNFUZZ_RUNTIME_msan -fsanitize=memory)
set(ATTNFUZZ_RUNTIME_tsan -fsanitize=thread)
