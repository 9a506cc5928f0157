# cmake -D source=DIR -D overlay=DIR -D tree=DIR -D stamp=FILE -D program=PATCH -P all_apply.cmake
#
# Tries every patch in the folders below this one, and reads the heads of those in known/. Nothing is changed.
# All patches of kernels/ are tried on one copy, in tree: a copy for each patch (apply.cmake) costs ten times as
# much, and only the bugs of the day need one. Patches of fresh/ for a kernel of that folder are tried in fresh/kernels/.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/head.cmake)

# Sets `result` to the folder in which a patch of fresh/ applies, or to nothing if there is no kernel of the head's name.
function(attnfuzz_fresh_place patch result)
  set(place "")
  file(STRINGS ${patch} kernel REGEX "^Kernel: [a-z0-9_]+$" LIMIT_COUNT 1)
  string(REGEX REPLACE "^Kernel: " "" kernel "${kernel}")
  if(kernel AND EXISTS ${CMAKE_CURRENT_LIST_DIR}/fresh/kernels/${kernel}.cu)
    set(place ${CMAKE_CURRENT_LIST_DIR}/fresh/kernels)
  elseif(kernel AND IS_DIRECTORY ${tree}/kernels/${kernel})
    set(place ${tree})
  endif()
  set(${result} "${place}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${tree})
file(COPY ${source}/kernels ${overlay}/kernels DESTINATION ${tree} FILES_MATCHING PATTERN "*.h" PATTERN "*.cu"
     PATTERN executor EXCLUDE PATTERN cuda_source EXCLUDE)
file(GLOB_RECURSE files RELATIVE ${overlay} ${overlay}/kernels/*)
foreach(file IN LISTS files)
  file(COPY_FILE ${overlay}/${file} ${tree}/${file})  # file(COPY) skips a file of the same time
endforeach()

set(bad)
file(GLOB_RECURSE patches RELATIVE ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/*.patch)
foreach(name IN LISTS patches)
  set(patch ${CMAKE_CURRENT_LIST_DIR}/${name})
  set(place ${tree})
  set(bug_error "")
  if(name MATCHES "^known/")
    attnfuzz_read_bug(${patch} bug)
  elseif(name MATCHES "^fresh/[^/]+/[^/]+$")
    attnfuzz_fresh_place(${patch} place)
    if(NOT place)
      set(bug_error "tests/bugs/${name}: its head names no kernel of kernels/ or of tests/bugs/fresh/kernels/")
    endif()
  else()
    set(bug_error "tests/bugs/${name}: all_apply.cmake does not know where the patches of its folder apply; known bugs are below known/")
  endif()
  if(bug_error)
    string(APPEND bad "${bug_error}\n")
    continue()
  endif()
  execute_process(COMMAND ${program} -p1 --fuzz=0 --batch --dry-run -i ${patch} WORKING_DIRECTORY ${place}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    string(APPEND bad "tests/bugs/${name} does not apply any more:\n${output}\n")
  endif()
endforeach()
if(bad)
  message(FATAL_ERROR "${bad}")
endif()
file(TOUCH ${stamp})
