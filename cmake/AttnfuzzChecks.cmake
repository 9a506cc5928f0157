# attnfuzz_add_checks(KERNEL <name> [CASES <n>] [BUILD_CASES <n>] [O0_CASES <n>] [O0_WORK <n>] [CUDA_CASES <n>]
#                     [PROPERTIES <property>...] [OPTIONS <argument>...] [LABELS <label>...] [OUT <dir>])
#
# Registers the property runs of a kernel that attnfuzz_add_kernel built with
# ctest; attnfuzz_add_kernel(... CHECKS ...) calls it with what follows CHECKS:
#
#   check.<name>                all properties on the CPU executor, CASES (2000) drawn cases
#   check.<name>.<property>     instead, for each of PROPERTIES: an entry of its own, CASES each
#                               (without --asan-every: asan has its own entry)
#   check.<name>.schedules      each case with a random order of threads; BUILD_CASES (500)
#   check.<name>.<build>        each sanitizer's build: asan, msan, msan-O0, tsan; BUILD_CASES, and
#                               where nothing is optimised (-O0) O0_CASES (BUILD_CASES / 5), each of
#                               at most O0_WORK multiply-adds (default: that of --work)
#   check.<name>.cuda           on a GPU; CUDA_CASES (CASES)
#   check.<name>.bits           if EXACT: the bits on an H200 equal the executor's; CUDA_CASES
#
# Labels: `check`, LABELS, and `property`, `build` or `gpu`. The GPU entries request RESOURCE_GROUPS
# gpus:1. If ctest has a resource specification, they use the GPU that it assigns. Without a GPU
# they are skipped, and their output says why. OPTIONS go to `attnfuzz check`. Reproducers of
# failures go to OUT (found/ in the current binary folder).
include_guard(GLOBAL)

function(attnfuzz_add_checks)
  cmake_parse_arguments(arg "" "KERNEL;CASES;BUILD_CASES;LANE_CASES;O0_CASES;O0_WORK;CUDA_CASES;OUT" "PROPERTIES;OPTIONS;LABELS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_KERNEL)
    message(FATAL_ERROR "attnfuzz_add_checks needs KERNEL; not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  get_property(builds GLOBAL PROPERTY ATTNFUZZ_BUILDS_${arg_KERNEL})
  if(NOT builds)
    message(FATAL_ERROR "attnfuzz_add_checks: there is no kernel '${arg_KERNEL}': call attnfuzz_add_kernel first")
  endif()
  if(NOT DEFINED arg_CASES)
    set(arg_CASES 2000)
  endif()
  if(NOT DEFINED arg_BUILD_CASES AND DEFINED arg_LANE_CASES)
    set(arg_BUILD_CASES ${arg_LANE_CASES})  # its name in version 0.1, still accepted
  endif()
  if(NOT DEFINED arg_BUILD_CASES)
    set(arg_BUILD_CASES 500)
  endif()
  if(NOT DEFINED arg_O0_CASES)
    math(EXPR arg_O0_CASES "(${arg_BUILD_CASES} + 4) / 5")
  endif()
  if(NOT DEFINED arg_CUDA_CASES)
    set(arg_CUDA_CASES ${arg_CASES})
  endif()
  if(NOT DEFINED arg_OUT)
    set(arg_OUT ${CMAKE_CURRENT_BINARY_DIR}/found)
  endif()

  # add(<name> <labels> <argument>...): one entry, of `library`.
  macro(add name labels)
    add_test(NAME check.${arg_KERNEL}${name}
      COMMAND attnfuzz::attnfuzz check ${library} ${ARGN} --jobs 1 --out ${arg_OUT} ${arg_OPTIONS})
    set_tests_properties(check.${arg_KERNEL}${name} PROPERTIES LABELS "check;${arg_LABELS};${labels}")
  endmacro()

  foreach(build IN LISTS builds)
    set(library $<TARGET_FILE:attn_${arg_KERNEL}_${build}>)
    if(build STREQUAL "cuda")
      add(.cuda gpu --backend cuda --cases ${arg_CUDA_CASES})
      set_tests_properties(check.${arg_KERNEL}.cuda PROPERTIES RESOURCE_GROUPS "gpus:1"
        SKIP_REGULAR_EXPRESSION "attnfuzz: no CUDA device;attnfuzz-worker-cuda is not beside")
      get_property(exact GLOBAL PROPERTY ATTNFUZZ_EXACT_${arg_KERNEL})
      if(exact AND "cpu" IN_LIST builds)
        add(.bits gpu --backend cuda --property cpu_gpu_bits --cases ${arg_CUDA_CASES})
        set_tests_properties(check.${arg_KERNEL}.bits PROPERTIES RESOURCE_GROUPS "gpus:1" SKIP_REGULAR_EXPRESSION
          "attnfuzz: no CUDA device;attnfuzz-worker-cuda is not beside;the executor has the arithmetic of an H200;the executor.s arithmetic of")
      endif()
    elseif(build STREQUAL "cpu")
      if(arg_PROPERTIES)
        foreach(property IN LISTS arg_PROPERTIES)
          add(.${property} property --backend cpu --property ${property} --cases ${arg_CASES} --asan-every 0)
        endforeach()
      else()
        add("" property --backend cpu --cases ${arg_CASES} --asan-every 0)
      endif()
      add(.schedules build --backend cpu --build schedules --cases ${arg_BUILD_CASES})
    else()
      string(REPLACE "cpu-" "" build_kind ${build})
      if(build_kind STREQUAL "coverage")
        continue()  # it would find what plain finds
      endif()
      set(cases ${arg_BUILD_CASES})
      set(work)
      attnfuzz_build_options(${build_kind} flags)
      if("-O0" IN_LIST flags)
        set(cases ${arg_O0_CASES})
        if(DEFINED arg_O0_WORK)
          set(work --work ${arg_O0_WORK})
        endif()
      endif()
      add(.${build_kind} build --backend cpu --build ${build_kind} --cases ${cases} ${work})
    endif()
  endforeach()
endfunction()
