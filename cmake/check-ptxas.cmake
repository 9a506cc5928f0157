# cmake -D nvcc=FILE [-D host=FILE] -D include=DIR -D source=FILE -D stamp=FILE -D dependencies=FILE -P check-ptxas.cmake
#
# Compiles a source of sm_90a kernels once more, and fails where ptxas says that it
# spilled registers or gave up the pipelining that the kernels are written for:
#   C7508 setmaxnreg ignored    C7510 to C7519 wgmma serialised, or a fence injected
cmake_minimum_required(VERSION 3.25)
if(host)
  list(PREPEND nvcc_options -ccbin ${host})
endif()
execute_process(
  COMMAND ${nvcc} ${nvcc_options} -std=c++20 -O3 -I ${include} -gencode=arch=compute_90a,code=sm_90a -Xptxas -v
          -MD -MF ${dependencies} -MT ${stamp} -cubin -o ${stamp}.cubin ${source}
  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(failed)
  message(FATAL_ERROR "${source}: it does not compile for sm_90a:\n${output}")
endif()
string(REGEX MATCHALL "[0-9]+ bytes spill stores" spills "${output}")
if(NOT spills)
  message(FATAL_ERROR "${source}: ptxas says nothing about spills: its output is not understood:\n${output}")
endif()
set(found)
foreach(spill IN LISTS spills)
  if(NOT spill STREQUAL "0 bytes spill stores")
    list(APPEND found "${spill}")
  endif()
endforeach()
string(REGEX MATCHALL "\\(C75[0-9][0-9]\\)[^\n]*" warnings "${output}")
list(APPEND found ${warnings})
if(found)
  list(JOIN found "\n  " found)
  message(FATAL_ERROR "${source}: its kernels are not as fast as they are written:\n  ${found}\n"
                      "Give the computing warpgroups more registers or less to hold, keep a wgmma_fence before each "
                      "batch, and let no product be under way at a loop's end.")
endif()
file(TOUCH ${stamp})
