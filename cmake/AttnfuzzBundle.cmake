# bundle: everything that a machine with a GPU needs to test and time this
# build, without a compiler, in one archive.
#
#   cmake --build build/bundle --target bundle   ->  build/bundle/attnfuzz-bundle.tar.gz
#   tar xzf attnfuzz-bundle.tar.gz && attnfuzz-bundle/run-bundle.sh
#
# To be included before the rooms are added: programs and kernel libraries then
# carry the C++ runtime in themselves and need only the C library, of glibc 2.34 or later.
include_guard(GLOBAL)
add_link_options(-static-libstdc++ -static-libgcc)
add_library(attnfuzz-old-glibc STATIC ${PROJECT_SOURCE_DIR}/cmake/portable/old_glibc.c)
# The runtime's archives come last and need these: they are taken out of their own archive before.
add_link_options(-Wl,--undefined=arc4random,--undefined=_dl_find_object)
link_libraries(attnfuzz-old-glibc)

# All programs and modules that directories below `directory` build.
function(attnfuzz_collect_targets directory result)
  set(collected)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(left_out ${target} EXCLUDE_FROM_ALL)
    if(type MATCHES "^(EXECUTABLE|MODULE_LIBRARY)$" AND NOT left_out)
      list(APPEND collected ${target})
    endif()
  endforeach()
  get_property(subdirectories DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    attnfuzz_collect_targets(${subdirectory} below)
    list(APPEND collected ${below})
  endforeach()
  set(${result} ${collected} PARENT_SCOPE)
endfunction()

function(attnfuzz_add_bundle)
  attnfuzz_collect_targets(${PROJECT_SOURCE_DIR} targets)
  get_property(kernels GLOBAL PROPERTY ATTNFUZZ_KERNELS)
  get_property(forward_kernels GLOBAL PROPERTY ATTNFUZZ_FORWARD_KERNELS)
  list(JOIN kernels " " kernels)
  list(JOIN forward_kernels " " forward_kernels)
  list(JOIN ATTNFUZZ_BUILDS " " build_kinds)
  add_custom_target(bundle
    COMMAND ${CMAKE_COMMAND} -D source=${PROJECT_SOURCE_DIR} -D build=${PROJECT_BINARY_DIR}
            "-D kernels=${kernels}" "-D forward_kernels=${forward_kernels}" "-D build_kinds=${build_kinds}" -P ${PROJECT_SOURCE_DIR}/cmake/make-bundle.cmake
    COMMENT "Packing attnfuzz-bundle.tar.gz" VERBATIM)
  if(targets)
    add_dependencies(bundle ${targets} twins contract)
  endif()
endfunction()

# Once all targets are known.
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL attnfuzz_add_bundle)
