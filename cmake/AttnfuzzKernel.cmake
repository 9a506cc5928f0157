# attnfuzz_add_kernel(NAME <name> SOURCES <a.cu> [<b.cc>...]
#                     [BACKENDS cpu cuda] [OPTIONS <flag>...] [INCLUDES <dir>...] [ROOT <dir>]
#                     [CUDA_SOURCES <a.cu>...] [APART <a.cu>...] [DIRECTORY <dir>]
#                     [BUILDS plain asan msan msan-O0 tsan coverage]
#                     [EXACT] [CHECKS [CASES <n>] ...])
#
# Makes one loadable library a back end from one kernel source:
#
#   attn_<name>_cpu         lib/libattn_<name>_cpu.so        clang or g++; executor symbols stay undefined, the worker has them
#   attn_<name>_cpu-<build> lib/libattn_<name>_cpu-<build>.so the same, instrumented: see AttnfuzzBuilds.cmake
#   attn_<name>_cuda        lib/libattn_<name>_cuda.so       nvcc; only where ATTNFUZZ_HAVE_CUDA
#
# Each exports attn_kernel_at() and carries attn_build_identity (kernels/identity.h): hashes of what
# the compiler reads for it from ROOT (default: the project's source tree), computed anew whenever
# one of those files or the flags change. Plain CUDA sources, with <<<>>> and anything else that
# nvcc takes, are translated for the executor.
# CUDA_SOURCES are compiled only for CUDA. APART lists files of SOURCES that hold a user's code, whose adapter is
# another file. For the executor, these files see none of our names except namespace simt (kernels/cuda_source/apart.h).
# OPTIONS go to every compilation. INCLUDES are searched before the source tree, so a patched copy of kernels/ can be
# compiled as another kernel. DIRECTORY is the library's folder, for a kernel that the commands should not list as ours.
# BUILDS lists the builds for the CPU, from plain, ATTNFUZZ_BUILDS and coverage. The default is all but coverage, which
# only fuzz targets and campaigns need. g++ builds only plain.
# EXACT: the CUDA build uses -fmad=false, so only the fma in the source are fused. Its bits are then
# those of the executor in a device's arithmetic (--property cpu_gpu_bits, docs/checks.md). Options
# that break this, and atomic additions of floats (check-atomics.cmake), are refused.
# CHECKS registers its property runs with ctest; the arguments after it go to
# attnfuzz_add_checks (AttnfuzzChecks.cmake).
#
# This file builds attnfuzz's own kernels and, once installed, those of any project
# (attnfuzzConfig.cmake.in). ATTNFUZZ_INCLUDE_DIR is the folder of kernels/attention.h.
# ATTNFUZZ_KERNEL_OPTIONS are options in addition to those of the directory.
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/AttnfuzzBuilds.cmake)  # for projects that use the installed package
include(${CMAKE_CURRENT_LIST_DIR}/AttnfuzzChecks.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/AttnfuzzExact.cmake)

if(NOT TARGET attnfuzz::attnfuzz-identity)
  add_subdirectory(${PROJECT_SOURCE_DIR}/base/identity ${PROJECT_BINARY_DIR}/identity)
endif()
if(NOT TARGET attnfuzz::attnfuzz-translate)
  add_subdirectory(${PROJECT_SOURCE_DIR}/kernels/cuda_source/translate ${PROJECT_BINARY_DIR}/translate)
endif()

# attnfuzz_add_identity(<target> [ROOT <dir>] [OBJECTS <object library>...] [DEPENDS <file>...])
# Links attn_build_identity into a target. It covers the target's own sources and its object
# libraries. DEPENDS: other files that their compilation needs.
function(attnfuzz_add_identity target)
  cmake_parse_arguments(arg "" "ROOT" "OBJECTS;DEPENDS" ${ARGN})
  if(NOT arg_ROOT)
    set(arg_ROOT ${PROJECT_SOURCE_DIR})
  endif()
  get_target_property(names ${target} SOURCES)
  if(NOT names)
    set(names)  # it has only objects of libraries
  endif()
  set(sources)
  foreach(name IN LISTS names)
    get_filename_component(name ${name} ABSOLUTE)
    list(APPEND sources ${name})
  endforeach()
  list(FILTER arg_OBJECTS EXCLUDE REGEX "::")  # imported: not compiled here
  set(objects /${target}.dir/)
  foreach(library IN LISTS arg_OBJECTS)
    string(APPEND objects ":/${library}.dir/")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target})
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(OUTPUT ${generated}/identity.c
    COMMAND attnfuzz::attnfuzz-identity ${arg_ROOT} ${CMAKE_BINARY_DIR} ${CMAKE_BINARY_DIR}/compile_commands.json
            ${objects} ${generated}/identity.c ${generated}/identity.d
    DEPENDS attnfuzz::attnfuzz-identity ${CMAKE_BINARY_DIR}/compile_commands.json ${sources} ${arg_DEPENDS}
    DEPFILE ${generated}/identity.d
    COMMENT "Build identity of ${target}" VERBATIM)
  target_sources(${target} PRIVATE ${generated}/identity.c)
  if(NOT CMAKE_C_COMPILER_LOADED)
    set_source_files_properties(${generated}/identity.c PROPERTIES LANGUAGE CXX)
  endif()
  set_source_files_properties(${generated}/identity.c PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # made from the rest
  set_target_properties(${target} PROPERTIES EXPORT_COMPILE_COMMANDS ON)
endfunction()

# Stops if this project's C++ compiler cannot build kernel `name` for the CPU executor. Sets arg_BUILDS, if it is empty,
# to all builds that the compiler can build.
function(attnfuzz_accept_compiler name build_kinds)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(all plain ${ATTNFUZZ_BUILDS})
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(all plain)
    set(others)
    foreach(build_kind IN LISTS build_kinds)
      attnfuzz_build_options(${build_kind} flags)
      if(flags)
        list(APPEND others ${build_kind})
      endif()
    endforeach()
    if(others)
      string(REPLACE ";" ", " others "${others}")
      message(FATAL_ERROR "attnfuzz_add_kernel(${name}): ${others}: g++ builds no build but plain, because the workers "
                          "expect clang's instrumentation: configure with -DCMAKE_CXX_COMPILER=clang++-19")
    endif()
    if(NOT build_kinds AND ATTNFUZZ_BUILDS)
      string(REPLACE ";" ", " left "${ATTNFUZZ_BUILDS}")
      message(STATUS "attnfuzz_add_kernel(${name}): g++ builds only the build plain; for ${left}: "
                     "-DCMAKE_CXX_COMPILER=clang++-19")
    endif()
  else()
    message(FATAL_ERROR "attnfuzz_add_kernel(${name}): kernels are compiled for the CPU executor with clang 15 (19 is "
                        "tested) or g++ 12 or later, this project's C++ compiler is ${CMAKE_CXX_COMPILER}: configure with "
                        "-DCMAKE_CXX_COMPILER=clang++-19, or build only for CUDA with BACKENDS cuda")
  endif()
  if(NOT build_kinds)
    set(arg_BUILDS ${all} PARENT_SCOPE)
  endif()
endfunction()

# Replaces the .cu files of a list by one that includes them: most of their compilation is the same headers.
# (CMake before 3.31 has no UNITY_BUILD for CUDA.)
function(attnfuzz_as_one_file list file)
  set(others ${${list}})
  list(FILTER others EXCLUDE REGEX "\\.cu$")
  set(cuda ${${list}})
  list(FILTER cuda INCLUDE REGEX "\\.cu$")
  list(TRANSFORM cuda REPLACE "(.+)" "#include \"\\1\"\n")
  list(JOIN cuda "" content)
  file(CONFIGURE OUTPUT ${file} CONTENT "${content}" @ONLY)
  set(${list} ${file} ${others} PARENT_SCOPE)
endfunction()

function(attnfuzz_add_kernel)
  list(FIND ARGN CHECKS checks_at)
  list(SUBLIST ARGN 0 ${checks_at} own)  # all arguments if there is no CHECKS
  cmake_parse_arguments(arg "EXACT" "NAME;ROOT;DIRECTORY" "SOURCES;CUDA_SOURCES;APART;BACKENDS;OPTIONS;INCLUDES;BUILDS;LANES" ${own})
  if("${arg_NAME}" STREQUAL "" OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
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
  list(TRANSFORM arg_INCLUDES PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" REGEX "^[^/$]")
  list(APPEND arg_BUILDS ${arg_LANES})  # the name of BUILDS in version 0.1, still accepted
  if("cpu" IN_LIST arg_BACKENDS)
    attnfuzz_accept_compiler(${arg_NAME} "${arg_BUILDS}")
  endif()
  set(gnu FALSE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(gnu TRUE)
  endif()
  if(arg_EXACT)
    attnfuzz_refuse_inexact(${arg_NAME} "${arg_OPTIONS}")
    list(APPEND arg_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
  endif()
  # Plain CUDA sources are first translated for the executor (translate.h): those with launches,
  # dynamic shared memory or inline PTX, and adapters of such sources.
  set(translated)  # the overlay for clang, the mirror for g++
  foreach(source IN LISTS arg_SOURCES)
    if("cpu" IN_LIST arg_BACKENDS AND source MATCHES "\\.cu$")
      get_filename_component(source ${source} ABSOLUTE)
      set(found)
      if(EXISTS ${source})  # a generated source may not exist yet
        file(STRINGS ${source} found LIMIT_COUNT 1 REGEX "<<<|ATTN_ADAPTER|extern .*__shared__|asm *(volatile)? *\\(")
      endif()
      if(found)
        set(translated ${CMAKE_CURRENT_BINARY_DIR}/attn_${arg_NAME}_translated)
      endif()
      list(APPEND cuda_sources ${source})
    endif()
  endforeach()
  set(mirror)
  if(translated)
    list(TRANSFORM arg_INCLUDES PREPEND "-I;" OUTPUT_VARIABLE folders)
    if(gnu)
      set(mirror ${translated}/attn_mirror)  # base/mirror.h
    endif()
    add_custom_command(OUTPUT ${translated}.stamp
      COMMAND attnfuzz::attnfuzz-translate ${translated} ${translated}.stamp $<$<BOOL:${mirror}>:--mirror> ${folders}
              ${cuda_sources}
      DEPENDS attnfuzz::attnfuzz-translate ${cuda_sources} DEPFILE ${translated}.stamp.d
      COMMENT "Translating ${arg_NAME} for the CPU executor" VERBATIM COMMAND_EXPAND_LISTS)
    add_custom_target(attn_${arg_NAME}_translated DEPENDS ${translated}.stamp)
  endif()
  set(apart)
  foreach(source IN LISTS arg_APART)
    get_filename_component(source ${source} ABSOLUTE)
    list(APPEND apart ${source})
  endforeach()
  set(builds)  # "cpu", "cpu-asan", "cuda"
  if("cpu" IN_LIST arg_BACKENDS)
    foreach(build_kind IN LISTS arg_BUILDS)
      if(build_kind STREQUAL "plain")
        list(APPEND builds cpu)
      elseif(build_kind STREQUAL "coverage" OR build_kind IN_LIST ATTNFUZZ_BUILDS)
        list(APPEND builds cpu-${build_kind})
      endif()
    endforeach()
  endif()
  if("cuda" IN_LIST arg_BACKENDS AND ATTNFUZZ_HAVE_CUDA)
    list(APPEND builds cuda)
  endif()
  foreach(build IN LISTS builds)
    string(REGEX REPLACE "-.*" "" backend ${build})
    set(options ${arg_OPTIONS})
    set(link_options)
    if(build MATCHES "^cpu-(.*)")
      attnfuzz_build_options(${CMAKE_MATCH_1} build_options)
      list(APPEND options ${build_options})
      # The kernel uses its own copy of a function, not one of the same name in another library.
      list(APPEND link_options -Wl,-Bsymbolic)
    endif()
    set(target attn_${arg_NAME}_${build})
    set(generated ${CMAKE_CURRENT_BINARY_DIR}/${target})
    set(sources)
    if(backend STREQUAL "cuda")
      list(APPEND arg_SOURCES ${arg_CUDA_SOURCES})  # cuda is the last build, so no other build gets these
    endif()
    foreach(source IN LISTS arg_SOURCES)
      get_filename_component(source ${source} ABSOLUTE)
      if(backend STREQUAL "cpu" AND source MATCHES "\\.cu$")
        # In a directory, CMake compiles a .cu file in one language only, CUDA.
        file(RELATIVE_PATH name ${arg_ROOT} ${source})
        string(MAKE_C_IDENTIFIER ${name} name)
        file(CONFIGURE OUTPUT ${generated}/${name}.cc CONTENT "#include \"@mirror@@source@\"\n" @ONLY)
        if(source IN_LIST apart)
          set_source_files_properties(${generated}/${name}.cc PROPERTIES COMPILE_DEFINITIONS ATTN_APART
            SKIP_UNITY_BUILD_INCLUSION ON)
        endif()
        set(source ${generated}/${name}.cc)
        if(translated)
          set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${translated}.stamp)
        endif()
      endif()
      list(APPEND sources ${source})
    endforeach()

    if(backend STREQUAL "cuda" AND ATTNFUZZ_CUDA_QUICK AND ATTNFUZZ_UNITY)
      attnfuzz_as_one_file(sources ${generated}/all.cu)
    endif()
    add_library(${target} MODULE ${sources})
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME attn_${arg_NAME}_${build}
      LIBRARY_OUTPUT_DIRECTORY ${arg_DIRECTORY}
      C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON
      CUDA_RUNTIME_LIBRARY Static)
    if(arg_EXACT)
      set_property(TARGET ${target} PROPERTY CUDA_COMPILER_LAUNCHER ${CMAKE_CUDA_COMPILER_LAUNCHER} ${CMAKE_COMMAND}
                   -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check-atomics.cmake --)
    endif()
    set(includes ${arg_INCLUDES} ${ATTNFUZZ_INCLUDE_DIR})
    if(backend STREQUAL "cpu" AND mirror)
      list(TRANSFORM arg_INCLUDES PREPEND ${mirror} OUTPUT_VARIABLE mirrors)
      list(PREPEND includes ${mirrors})
    endif()
    if(backend STREQUAL "cpu")
      # These stand-ins for the toolkit's headers must not be mixed with the real ones.
      list(APPEND includes ${ATTNFUZZ_INCLUDE_DIR}/kernels/cuda_source/include)
      # Does not unroll loops. A GPU needs unrolling because registers cannot be indexed. On the CPU
      # it would double the compilation time and hardly speed up a call. g++ does not unroll at -O2.
      if(gnu)
        list(APPEND options -fno-gnu-unique -Wno-psabi)  # a library with unique symbols is never unloaded
      else()
        list(APPEND options "SHELL:-mllvm -pragma-unroll-threshold=1" -Wno-pass-failed)
      endif()
    endif()
    target_include_directories(${target} BEFORE PRIVATE ${includes})
    set_target_properties(${target} PROPERTIES CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    set_property(TARGET ${target} PROPERTY CUDA_STANDARD)  # the project's own; nvcc takes no second -std
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20> ${ATTNFUZZ_KERNEL_OPTIONS} ${options})
    target_link_options(${target} PRIVATE ${link_options})

    if(translated AND backend STREQUAL "cpu")
      # cuda_runtime.h is included automatically, as nvcc does. CUDA code reads half2 as unsigned
      # and four floats as float4. nvcc allows this aliasing, and only warns about int2{threadIdx.x,
      # 0}.
      target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include cuda_runtime.h>"
        $<$<COMPILE_LANGUAGE:CXX>:-fno-strict-aliasing> $<$<COMPILE_LANGUAGE:CXX>:-Wno-narrowing>)
      if(NOT gnu)
        target_compile_options(${target} PRIVATE -ivfsoverlay ${translated}/overlay.yaml)
      endif()
      add_dependencies(${target} attn_${arg_NAME}_translated)
      attnfuzz_add_identity(${target} ROOT ${arg_ROOT} DEPENDS ${translated}.stamp)
    else()
      attnfuzz_add_identity(${target} ROOT ${arg_ROOT})
    endif()
  endforeach()
  set_property(GLOBAL PROPERTY ATTNFUZZ_BUILDS_${arg_NAME} ${builds})
  set_property(GLOBAL PROPERTY ATTNFUZZ_EXACT_${arg_NAME} ${arg_EXACT})
  if(NOT checks_at EQUAL -1)
    list(SUBLIST ARGN ${checks_at} -1 checks)
    list(REMOVE_AT checks 0)
    attnfuzz_add_checks(KERNEL ${arg_NAME} ${checks})
  endif()
endfunction()
