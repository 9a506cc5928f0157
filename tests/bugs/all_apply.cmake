# cmake -D source=DIR -D overlay=DIR -D tree=DIR -D stamp=FILE -D program=PATCH -P all_apply.cmake
#
# Tries every patch beside this file on one copy of kernels/, in tree, and reads its head. Nothing is changed: a copy for
# each patch (apply.cmake) costs ten times as much, and only the bugs of the day need one.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/head.cmake)

file(REMOVE_RECURSE ${tree})
file(COPY ${source}/kernels ${overlay}/kernels DESTINATION ${tree} FILES_MATCHING PATTERN "*.h" PATTERN "*.cu"
     PATTERN executor EXCLUDE PATTERN cuda_source EXCLUDE)
file(GLOB_RECURSE files RELATIVE ${overlay} ${overlay}/kernels/*)
foreach(file IN LISTS files)
  file(COPY_FILE ${overlay}/${file} ${tree}/${file})  # over a file that is as old, too
endforeach()

set(bad)
file(GLOB patches ${CMAKE_CURRENT_LIST_DIR}/*.patch)
foreach(patch IN LISTS patches)
  get_filename_component(name ${patch} NAME)
  attnfuzz_read_bug(${patch} bug)
  execute_process(COMMAND ${program} -p1 --fuzz=0 --batch --dry-run -i ${patch} WORKING_DIRECTORY ${tree}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(bug_error)
    string(APPEND bad "${bug_error}\n")
  elseif(failed)
    string(APPEND bad "tests/bugs/${name} does not apply to kernels/ any more:\n${output}\n")
  endif()
endforeach()
if(bad)
  message(FATAL_ERROR "${bad}")
endif()
file(TOUCH ${stamp})
