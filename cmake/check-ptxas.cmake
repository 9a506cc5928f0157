# cmake -P check-ptxas.cmake -- NVCC ARGUMENT...
#
# Runs the given nvcc command, which should have -Xptxas=-v. Fails if ptxas reports spilled
# registers, or that it gave up the pipelining that sm_90a kernels need:
#   any warning C75xx: C7508 setmaxnreg ignored, C7510 to C7519 wgmma serialised or a fence injected
# Without -Xptxas=-v it only runs the command.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/nvcc-command.cmake)
execute_process(COMMAND ${command} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(failed)
  message(FATAL_ERROR "${command} ended with ${failed}:\n${output}")
endif()
if(NOT command MATCHES "-Xptxas[;=]-v")
  if(output)
    message("${output}")
  endif()
  return()
endif()

list(FIND command -c at)
math(EXPR at "${at} + 1")
list(GET command ${at} source)
string(REGEX MATCHALL "[0-9]+ bytes spill stores" spills "${output}")
if(NOT spills)
  file(REMOVE ${object})
  message(FATAL_ERROR "${source}: ptxas says nothing about spills: its output is not understood:\n${output}")
endif()
list(FILTER spills EXCLUDE REGEX "^0 bytes")
string(REGEX MATCHALL "\\(C75[0-9][0-9]\\)[^\n]*" warnings "${output}")
if(spills OR warnings)
  file(REMOVE ${object})
  list(JOIN spills "\n  " spills)
  list(JOIN warnings "\n  " warnings)
  message(FATAL_ERROR "${source}: its kernels are not as fast as they are written:\n  ${spills}\n  ${warnings}\n"
                      "Give the computing warpgroups more registers or less to hold, keep a wgmma_fence before each "
                      "batch, and let no product be under way at a loop's end.")
endif()
