# cmake -D patches=A;B -D source=DIR -D overlay=DIR -D tree=DIR -D stamp=FILE -D program=PATCH -P compose_bugs.cmake
#
# As tests/bugs/apply.cmake, with several known bugs in one tree.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${tree})
file(COPY ${source}/kernels DESTINATION ${tree} FILES_MATCHING PATTERN "*.h" PATTERN "*.cu" PATTERN simt EXCLUDE)
file(GLOB_RECURSE files RELATIVE ${overlay} ${overlay}/kernels/*)
foreach(file IN LISTS files)
  get_filename_component(folder ${tree}/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(COPY_FILE ${overlay}/${file} ${tree}/${file})
endforeach()
foreach(patch IN LISTS patches)
  # --fuzz=0: what surrounds the change must be what its author saw, other lines further up apart.
  execute_process(COMMAND ${program} -p1 --fuzz=0 --batch --no-backup-if-mismatch -i ${patch} WORKING_DIRECTORY ${tree}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${patch} does not apply beside ${patches}: choose another\n${output}")
  endif()
endforeach()
file(TOUCH ${stamp})
