# cmake -D source=DIR -D build=DIR -D "kernels=NAME NAME" -P make-bundle.cmake
#
# Makes the archive for AttnfuzzBundle.cmake: stripped programs and libraries, the corpus, the
# scripts. Fails if a binary needs more than the C library, or if the archive is larger than
# most_bytes.
cmake_minimum_required(VERSION 3.25)
set(most_bytes 52428800)  # 50 MiB

find_program(STRIP NAMES llvm-strip-19 llvm-strip strip REQUIRED)
find_program(READELF NAMES llvm-readelf-19 llvm-readelf readelf REQUIRED)
set(root ${build}/attnfuzz-bundle)
file(REMOVE_RECURSE ${root})

# Programs are in bin/, kernels in lib/, the seeded bugs in lib/attnfuzz/, others' kernels in plugins/, and libraries
# that only tests load stay where the build has them.
file(GLOB programs LIST_DIRECTORIES false ${build}/bin/*)
list(FILTER programs EXCLUDE REGEX "/attnfuzz-identity$")
file(GLOB modules ${build}/lib/*.so ${build}/lib/attnfuzz/*.so ${build}/lib/peers/*.so ${build}/plugins/*.so)
file(GLOB_RECURSE test_modules ${build}/tests/*.so)
foreach(binary IN LISTS programs modules test_modules)
  file(RELATIVE_PATH name ${build} ${binary})
  get_filename_component(folder ${name} DIRECTORY)
  file(COPY ${binary} DESTINATION ${root}/${folder})
  execute_process(COMMAND ${READELF} --dynamic ${binary} OUTPUT_VARIABLE dynamic ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    continue()  # a script
  endif()
  execute_process(COMMAND ${STRIP} --strip-unneeded ${root}/${name} COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "Shared library: \\[[^]]+\\]" needed "${dynamic}")
  foreach(library IN LISTS needed)
    string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" library "${library}")
    # This library lies beside the binary, so the bundle contains it, too.
    if(EXISTS ${build}/lib/${library})
      continue()
    endif()
    if(NOT library MATCHES "^(libc|libm|libpthread|libdl|librt|libresolv|ld-linux-x86-64)\\.so")
      list(APPEND foreign "${name} needs ${library}")
    endif()
  endforeach()
endforeach()
if(foreign)
  list(JOIN foreign "\n  " foreign)
  message(FATAL_ERROR "these would not start on another machine; link it statically:\n  ${foreign}")
endif()

file(COPY ${source}/corpus DESTINATION ${root})
file(COPY ${source}/fuzz/bench/attention.py ${source}/fuzz/bench/backward.py ${source}/fuzz/bench/bench.py
     ${source}/fuzz/bench/bench_batches.py ${source}/fuzz/bench/bench_features.py ${source}/fuzz/bench/timing.py ${source}/fuzz/bench/plain_loop.py
     DESTINATION ${root}/fuzz/bench)
file(COPY ${source}/python/attnfuzz DESTINATION ${root}/python PATTERN __pycache__ EXCLUDE)
file(COPY ${build}/python/attnfuzz/contract.py DESTINATION ${root}/python/attnfuzz)
file(COPY ${source}/cmake/run-bundle.sh DESTINATION ${root})
file(COPY ${source}/LICENSE DESTINATION ${root})
file(WRITE ${root}/own-kernels "${kernels}\n")  # what the script checks
file(WRITE ${root}/forward-kernels "${forward_kernels}\n")  # those that replay the corpus of forward cases
file(WRITE ${root}/own-builds "plain schedules ${build_kinds}\n")
file(WRITE ${root}/build-folder "${build}\n")  # where tests expect to find what they load

execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf attnfuzz-bundle.tar.gz attnfuzz-bundle
                WORKING_DIRECTORY ${build} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${build}/attnfuzz-bundle.tar.gz bytes)
math(EXPR mib "(${bytes} + 1048575) / 1048576")
if(bytes GREATER most_bytes)
  message(FATAL_ERROR "attnfuzz-bundle.tar.gz has ${mib} MiB, more than 50")
endif()
message(STATUS "${build}/attnfuzz-bundle.tar.gz: ${mib} MiB")
