# attnfuzz_add_kernel(NAME <name> SOURCES <a.cu> [<b.cc>...]
#                     [BACKENDS cpu cuda] [OPTIONS <flag>...] [INCLUDES <dir>...] [ROOT <dir>]
#                     [DIRECTORY <dir>])
#
# Makes one loadable library a back end from one kernel source:
#
#   attn_<name>_cpu   lib/libattn_<name>_cpu.so   clang; executor symbols stay undefined, the worker has them
#   attn_<name>_cuda  lib/libattn_<name>_cuda.so  nvcc; only where ATTNFUZZ_HAVE_CUDA
#
# Each exports attn_kernel_at() and carries attn_build_identity (kernels/identity.h):
# hashes of what the compiler reads for it from ROOT (default: this source tree),
# computed anew whenever one of those files or the flags change.
# OPTIONS go to every compilation; INCLUDES are searched before the source tree,
# so a patched copy of kernels/ can be compiled as another kernel; DIRECTORY is
# where the library goes, for one that the commands should not list as ours.
include_guard(GLOBAL)

if(NOT TARGET attnfuzz-identity)
  add_subdirectory(${PROJECT_SOURCE_DIR}/kernels/identity ${PROJECT_BINARY_DIR}/kernels/identity)
endif()

# attnfuzz_add_identity(<target> [ROOT <dir>] [OBJECTS <object library>...])
# Links attn_build_identity into a target: of its own sources, and of the object
# libraries it holds.
function(attnfuzz_add_identity target)
  cmake_parse_arguments(arg "" "ROOT" "OBJECTS" ${ARGN})
  if(NOT arg_ROOT)
    set(arg_ROOT ${PROJECT_SOURCE_DIR})
  endif()
  get_target_property(names ${target} SOURCES)
  set(sources)
  foreach(name IN LISTS names)
    get_filename_component(name ${name} ABSOLUTE)
    list(APPEND sources ${name})
  endforeach()
  set(objects /${target}.dir/)
  foreach(library IN LISTS arg_OBJECTS)
    string(APPEND objects ":/${library}.dir/")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target})
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(OUTPUT ${generated}/identity.c
    COMMAND attnfuzz-identity ${arg_ROOT} ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/compile_commands.json
            ${objects} ${generated}/identity.c ${generated}/identity.d
    DEPENDS attnfuzz-identity ${CMAKE_BINARY_DIR}/compile_commands.json ${sources}
    DEPFILE ${generated}/identity.d
    COMMENT "Build identity of ${target}" VERBATIM)
  target_sources(${target} PRIVATE ${generated}/identity.c)
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS ON)
endfunction()

function(attnfuzz_add_kernel)
  cmake_parse_arguments(arg "" "NAME;ROOT;DIRECTORY" "SOURCES;BACKENDS;OPTIONS;INCLUDES" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "attnfuzz_add_kernel needs NAME and SOURCES; not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_BACKENDS)
    set(arg_BACKENDS cpu cuda)
  endif()
  if(NOT arg_ROOT)
    set(arg_ROOT ${PROJECT_SOURCE_DIR})
  endif()
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  endif()
  foreach(backend IN LISTS arg_BACKENDS)
    if(backend STREQUAL "cuda" AND NOT ATTNFUZZ_HAVE_CUDA)
      continue()
    endif()
    set(target attn_${arg_NAME}_${backend})
    set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target})
    set(sources)
    foreach(source IN LISTS arg_SOURCES)
      get_filename_component(source ${source} ABSOLUTE)
      if(backend STREQUAL "cpu" AND source MATCHES "\\.cu$")
        # A .cu file has one language in a directory, and that is nvcc's.
        file(RELATIVE_PATH name ${arg_ROOT} ${source})
        string(MAKE_C_IDENTIFIER ${name} name)
        file(CONFIGURE OUTPUT ${generated}/${name}.cc CONTENT "#include \"@source@\"\n" @ONLY)
        set(source ${generated}/${name}.cc)
      endif()
      list(APPEND sources ${source})
    endforeach()

    add_library(${target} MODULE ${sources})
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME attn_${arg_NAME}_${backend}
      LIBRARY_OUTPUT_DIRECTORY ${arg_DIRECTORY}
      C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON
      CUDA_RUNTIME_LIBRARY Static)
    target_include_directories(${target} BEFORE PRIVATE ${arg_INCLUDES})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20> ${arg_OPTIONS})

    attnfuzz_add_identity(${target} ROOT ${arg_ROOT})
  endforeach()
endfunction()
