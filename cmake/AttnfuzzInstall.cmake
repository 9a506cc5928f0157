# cmake --install: installs the command with its workers, our kernels, the Python package, and the
# files that another project needs to check its kernels (attnfuzzConfig.cmake.in says how).
#
#   bin/              attnfuzz, attnfuzz-identity, attnfuzz-translate, a worker a build and back end
#   lib/              libattn_*.so: found beside bin/, as in the build tree; the CPU executor as a library;
#                     what the Python package loads
#   include/attnfuzz/ kernels/: the contract, the primitives, the executor's
#                     headers and its stand-ins for CUDA's
#   lib/attnfuzz/     the seeded bugs of campaigns
#   lib/cmake/attnfuzz/
#   python/attnfuzz/  the Python package, for PYTHONPATH
#   share/attnfuzz/   VERSION, and slurm/: campaigns on many machines
#   share/man/, share/bash-completion/, share/zsh/, share/fish/
#   share/doc/attnfuzz/
#
# The component `package` is the content of a wheel: everything that is needed to check other
# kernels, without our kernels, the sanitizers' workers and Slurm. Workers, kernels and builds that
# have not been built are left out. The command, attnfuzz-identity, attnfuzz-translate and the
# executor are required. `--target tools` builds these, and none of our kernels.
#
# The folders are fixed relative to one another: the command finds its workers
# beside itself, and the whole may be moved. `cmake --workflow --preset release` packs it.
include(CMakePackageConfigHelpers)
set(package_dir lib/cmake/attnfuzz)

set(workers attnfuzz-worker-cpu)
foreach(runtime IN LISTS ATTNFUZZ_WORKERS)
  list(APPEND workers attnfuzz-worker-cpu-${runtime})
endforeach()
if(TARGET attnfuzz-worker-cuda)
  list(APPEND workers attnfuzz-worker-cuda)
endif()
foreach(target ${workers} attnfuzz-calibrate-cpu attnfuzz-calibrate-cuda)
  if(TARGET ${target})
    set(component)
    if(target MATCHES "-worker-(cpu|cuda)$")
      set(component COMPONENT package)
    endif()
    install(TARGETS ${target} DESTINATION bin ${component} OPTIONAL)
  endif()
endforeach()
install(TARGETS attnfuzz attnfuzz-identity attnfuzz-translate EXPORT attnfuzzTargets DESTINATION bin COMPONENT package)
install(TARGETS attnfuzz-executor LIBRARY DESTINATION lib COMPONENT package)  # attnfuzz export's programs load it
install(EXPORT attnfuzzTargets NAMESPACE attnfuzz:: DESTINATION ${package_dir} COMPONENT package)
foreach(target attnfuzz-oracle attnfuzz-cases attnfuzz-hosted-cpu attnfuzz-hosted-cuda)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION lib COMPONENT package OPTIONAL)
  endif()
endforeach()
install(DIRECTORY python/attnfuzz DESTINATION python COMPONENT package PATTERN __pycache__ EXCLUDE)
install(FILES ${PROJECT_BINARY_DIR}/python/attnfuzz/contract.py DESTINATION python/attnfuzz COMPONENT package)
install(FILES LICENSE CHANGELOG.md DESTINATION share/doc/attnfuzz COMPONENT package)

get_property(kernels GLOBAL PROPERTY ATTNFUZZ_KERNELS)
foreach(kernel IN LISTS kernels)
  get_property(builds GLOBAL PROPERTY ATTNFUZZ_BUILDS_${kernel})
  foreach(build IN LISTS builds)
    install(TARGETS attn_${kernel}_${build} LIBRARY DESTINATION lib OPTIONAL)
  endforeach()
endforeach()

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/share/attnfuzz/VERSION CONTENT "@PROJECT_VERSION@\n" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/share/attnfuzz/VERSION DESTINATION share/attnfuzz COMPONENT package)
foreach(folder man bash-completion zsh fish)  # cli/CMakeLists.txt makes them with the command
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/${folder} DESTINATION share COMPONENT package)
endforeach()
install(PROGRAMS fuzz/slurm/submit.sh DESTINATION share/attnfuzz/slurm)
install(FILES fuzz/slurm/campaign.sbatch fuzz/slurm/merge.sbatch DESTINATION share/attnfuzz/slurm)

get_property(builds GLOBAL PROPERTY ATTNFUZZ_BUILDS_seeded_bug)
foreach(build IN LISTS builds)
  set(component)
  if(NOT build MATCHES "-")
    set(component COMPONENT package)  # a wheel has no worker of another build
  endif()
  install(TARGETS attn_seeded_bug_${build} LIBRARY DESTINATION lib/attnfuzz ${component} OPTIONAL)
  list(APPEND seeded_bugs attn_seeded_bug_${build})
endforeach()
add_custom_target(tools DEPENDS attnfuzz attnfuzz-identity attnfuzz-translate attnfuzz-executor ${workers} ${seeded_bugs})

# Builds everything that the preset `release` packs.
add_custom_target(release DEPENDS tools python-package)
foreach(kernel IN LISTS kernels)
  get_property(builds GLOBAL PROPERTY ATTNFUZZ_BUILDS_${kernel})
  list(TRANSFORM builds PREPEND attn_${kernel}_)
  add_dependencies(release ${builds})
endforeach()
foreach(target wheel attnfuzz-calibrate-cpu attnfuzz-calibrate-cuda)
  if(TARGET ${target})
    add_dependencies(release ${target})
  endif()
endforeach()

install(FILES kernels/adapter.h kernels/attention.h kernels/call.h kernels/check_tensors.h kernels/identity.h kernels/plug_in.h
        kernels/read_call.h DESTINATION include/attnfuzz/kernels COMPONENT package)
install(DIRECTORY kernels/cuda_source kernels/executor kernels/primitives DESTINATION include/attnfuzz/kernels COMPONENT package
        FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh" REGEX "/cuda_source/include/" PATTERN example EXCLUDE)

# The build tree has the same shape, so that the command builds sources (check --entry) from it as well.
set(package ${PROJECT_BINARY_DIR}/${package_dir})
configure_package_config_file(cmake/attnfuzzConfig.cmake.in ${package}/attnfuzzConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${package}/attnfuzzConfigVersion.cmake COMPATIBILITY SameMinorVersion)
export(EXPORT attnfuzzTargets NAMESPACE attnfuzz:: FILE ${package}/attnfuzzTargets.cmake)
set(modules AttnfuzzKernel.cmake AttnfuzzChecks.cmake AttnfuzzExact.cmake AttnfuzzBuilds.cmake AttnfuzzCuda.cmake
            check-atomics.cmake nvcc-command.cmake)
foreach(module IN LISTS modules)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/cmake/${module} ${package}/${module} SYMBOLIC)
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/include/attnfuzz SYMBOLIC)
list(TRANSFORM modules PREPEND cmake/)
install(FILES ${package}/attnfuzzConfig.cmake ${package}/attnfuzzConfigVersion.cmake ${modules}
        DESTINATION ${package_dir} COMPONENT package)

# cpack packs everything that was built into one archive, which may be unpacked anywhere.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_FILE_NAME attnfuzz-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Property-based and differential fuzz testing of attention kernels")
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
