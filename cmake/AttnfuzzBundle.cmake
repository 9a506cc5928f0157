# The target bundle packs everything that a GPU machine without a compiler needs to test and time
# this build into one archive.
#
#   cmake --build build/bundle --target bundle   ->  build/bundle/attnfuzz-bundle.tar.gz
#   tar xzf attnfuzz-bundle.tar.gz && attnfuzz-bundle/run-bundle.sh
#
# Include this before the source folders are added. Programs and kernel libraries are then linked statically
# with the C++ runtime, and need only glibc 2.34 or later.
include_guard(GLOBAL)
add_link_options(-static-libstdc++ -static-libgcc)
add_library(attnfuzz-old-glibc STATIC ${PROJECT_SOURCE_DIR}/cmake/portable/old_glibc.c)
# The runtime's archives come last on the link line and need these two functions. --undefined makes
# the linker take them from our archive, which comes before.
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

# Runs after all targets are defined.
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL attnfuzz_add_bundle)
