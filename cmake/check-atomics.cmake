# cmake -P check-atomics.cmake -- NVCC ARGUMENT...
#
# Runs the given nvcc command and searches its PTX for atomic additions of floating-point numbers.
# Such an addition follows the order of threads, so its bits may change from run to run. If there is
# one, the compilation fails and names it. A loop around a compare-and-swap is not recognised.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/nvcc-command.cmake)
set(kept ${object}.kept)
file(REMOVE_RECURSE ${kept})
file(MAKE_DIRECTORY ${kept})
execute_process(COMMAND ${command} -keep -keep-dir ${kept} RESULT_VARIABLE failed)
if(failed)
  file(REMOVE_RECURSE ${kept})
  message(FATAL_ERROR "nvcc: ${failed}")
endif()

set(name "[a-zA-Z0-9_.:]*")
set(float "(bf16|f16|f32|f64|e4m3|e5m2)")
set(adds "(atom|red|multimem\\.red|multimem\\.ld_reduce|cp\\.reduce\\.async\\.bulk)(\\.add${name}\\.${float}|\\.${name}\\.add${name}\\.${float}|${name}\\.${float}${name}\\.add)|cp\\.reduce\\.async\\.bulk\\.tensor${name}\\.add")
file(GLOB assembly ${kept}/*.ptx)
set(found)
foreach(file IN LISTS assembly)
  file(STRINGS ${file} lines REGEX "(^|[^a-zA-Z0-9_.])(${adds})")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "(${adds})${name}" instruction "${line}")
    list(APPEND found ${instruction})
  endforeach()
endforeach()
file(REMOVE_RECURSE ${kept})
if(found OR NOT assembly)
  file(REMOVE ${object})
endif()
if(NOT assembly)
  message(FATAL_ERROR "EXACT: nvcc makes no PTX that could be looked through for atomic additions; compile without "
                      "-dlto, or leave EXACT out")
endif()
if(found)
  list(REMOVE_DUPLICATES found)
  list(JOIN found ", " found)
  message(FATAL_ERROR "EXACT: an atomic addition of floating-point numbers (${found}) may give other bits each time; "
                      "add in a fixed order, or leave EXACT out")
endif()
