# Enables the CUDA back end if it can be built, and sets ATTNFUZZ_HAVE_CUDA. It prints the result,
# so that nobody mistakes a CPU-only build for a full one. A project that has already enabled CUDA
# keeps its compiler and architectures.
#
# ATTNFUZZ_CUDA_QUICK: options that compile device code quickly. They are set if this machine has no
# GPU and no architecture was named, and are used for code whose speed no check of the build
# measures.
set(ATTNFUZZ_HAVE_CUDA OFF)
set(ATTNFUZZ_CUDA_QUICK)
get_property(_attnfuzz_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(ATTNFUZZ_CUDA STREQUAL "OFF")
elseif("CUDA" IN_LIST _attnfuzz_languages)
  set(ATTNFUZZ_HAVE_CUDA ON)
else()
  find_program(ATTNFUZZ_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(ATTNFUZZ_NVCC)
    set(CMAKE_CUDA_COMPILER ${ATTNFUZZ_NVCC})
    find_program(ATTNFUZZ_CUDA_HOST NAMES g++-12 g++-13 g++)
    set(CMAKE_CUDA_HOST_COMPILER ${ATTNFUZZ_CUDA_HOST})
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # The architecture of this machine's GPU. Without a GPU, the newest one that has special
      # kernels, so that all code is compiled. A build for other machines names its architectures
      # (the preset bundle).
      set(CMAKE_CUDA_ARCHITECTURES 90a-real)
      find_program(ATTNFUZZ_NVIDIA_SMI nvidia-smi)
      if(ATTNFUZZ_NVIDIA_SMI)
        execute_process(COMMAND ${ATTNFUZZ_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                        OUTPUT_VARIABLE capability ERROR_QUIET)
        if(capability MATCHES "^([0-9]+)\\.([0-9]+)" AND NOT CMAKE_MATCH_0 STREQUAL "9.0")
          set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
        endif()
      else()
        set(ATTNFUZZ_CUDA_QUICK -Ofc=max)
      endif()
    endif()
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 does not know that nvcc supports C++20, and rejects targets that require it.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(ATTNFUZZ_HAVE_CUDA ON)
  elseif(ATTNFUZZ_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ATTNFUZZ_CUDA=ON, but there is no nvcc: install the CUDA toolkit (13.0), "
                        "put nvcc on PATH, or configure with -DATTNFUZZ_CUDA=OFF")
  endif()
endif()
if(ATTNFUZZ_HAVE_CUDA)
  message(STATUS "CUDA back end: built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} "
                 "for ${CMAKE_CUDA_ARCHITECTURES}")
  if(ATTNFUZZ_CUDA_QUICK)
    message(STATUS "CUDA back end: no GPU here, so some device code is compiled quickly, not to run fast; for a GPU "
                   "elsewhere use the preset bundle, or name its architecture in CMAKE_CUDA_ARCHITECTURES")
  endif()
else()
  message(STATUS "CUDA back end: LEFT OUT (no nvcc, or ATTNFUZZ_CUDA=OFF); the CPU executor is built")
endif()
