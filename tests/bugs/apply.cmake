# cmake "-Dpatches=FILE;..." -D source=DIR -D overlay=DIR -D tree=DIR -D stamp=FILE -D program=PATCH -P apply.cmake
#
# Makes tree/kernels: copies the kernels of the source tree without the executor, copies the small
# instantiations of the overlay over them, and applies the patches, usually one. Files whose content
# did not change keep their time, so that nothing is compiled twice.
# -D heads=OFF leaves the heads of the patches unread: those of fresh/ have other fields.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/head.cmake)

foreach(patch IN LISTS patches)
  if(DEFINED heads AND NOT heads)
    break()
  endif()
  attnfuzz_read_bug(${patch} bug)
  if(bug_error)
    message(FATAL_ERROR "${bug_error}")
  endif()
endforeach()

set(copy ${tree}.new)
file(REMOVE_RECURSE ${copy})
file(COPY ${source}/kernels DESTINATION ${copy} FILES_MATCHING PATTERN "*.h" PATTERN "*.cu" PATTERN executor EXCLUDE PATTERN cuda_source EXCLUDE)
# One by one: file(COPY) skips a file whose time is equal to the second, as in a fresh checkout.
file(GLOB_RECURSE files RELATIVE ${overlay} ${overlay}/kernels/*)
foreach(file IN LISTS files)
  get_filename_component(folder ${copy}/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(COPY_FILE ${overlay}/${file} ${copy}/${file})
endforeach()
set(beside)
foreach(patch IN LISTS patches)
  string(REPLACE "${CMAKE_CURRENT_LIST_DIR}/" "tests/bugs/" name "${patch}")
  # --fuzz=0: the lines around a change must be the same; their line numbers may have moved.
  execute_process(COMMAND ${program} -p1 --fuzz=0 --batch --no-backup-if-mismatch -i ${patch} WORKING_DIRECTORY ${copy}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${name} does not apply to kernels/ any more${beside}:\n${output}")
  endif()
  string(APPEND beside " beside ${name}")
endforeach()

file(GLOB_RECURSE files RELATIVE ${copy} ${copy}/*)
file(GLOB_RECURSE old RELATIVE ${tree} ${tree}/*)
foreach(file IN LISTS files)
  get_filename_component(folder ${tree}/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(COPY_FILE ${copy}/${file} ${tree}/${file} ONLY_IF_DIFFERENT)
endforeach()
list(REMOVE_ITEM old ${files})
foreach(file IN LISTS old)
  file(REMOVE ${tree}/${file})
endforeach()
file(REMOVE_RECURSE ${copy})
file(TOUCH ${stamp})
