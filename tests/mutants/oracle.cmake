# The target reference-mutants: a copy of reference/ that holds every mutant, and its tests in one program.
set(oracle_folder ${PROJECT_BINARY_DIR}/reference-mutants)
set(oracle_tree ${CMAKE_CURRENT_BINARY_DIR}/oracle)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(GTest REQUIRED)
get_target_property(eigen Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
list(TRANSFORM eigen PREPEND -isystem)
file(GLOB_RECURSE oracle_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reference/*.h ${PROJECT_SOURCE_DIR}/reference/*.cc)
file(GLOB oracle_units RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/reference/*.cc)
foreach(room numbers model call rows warnings gradients nsa)
  file(GLOB more RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/reference/${room}/*.cc)
  list(APPEND oracle_units ${more})
endforeach()
file(GLOB_RECURSE oracle_tests ${PROJECT_SOURCE_DIR}/tests/reference/*.cc)
list(FILTER oracle_tests EXCLUDE REGEX "/cuda/")
list(FILTER oracle_tests EXCLUDE REGEX "/(audit|calibrate_test|planned_bits_test)\\.cc$")  # another program; a sweep of its own; not the oracle
list(TRANSFORM oracle_units PREPEND ${oracle_tree}/)

set(makers generate.py clang_tree.py mutated.py oracle_rules.py rules.py schemata.py walk.py mutant.h)
list(TRANSFORM makers PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
add_custom_command(OUTPUT ${oracle_tree}.stamp BYPRODUCTS ${oracle_units} ${oracle_folder}/mutants.json
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate.py --folder ${PROJECT_SOURCE_DIR}/reference
          --out ${oracle_tree} -- ${compiler} ${eigen}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${oracle_folder}
  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${oracle_tree}/mutants.json ${oracle_folder}/mutants.json
  COMMAND ${CMAKE_COMMAND} -E touch ${oracle_tree}.stamp
  DEPENDS ${oracle_sources} ${makers}
  COMMENT "Mutants of the oracle" VERBATIM)
add_custom_target(oracle-mutant-tree DEPENDS ${oracle_tree}.stamp)

# Without precompiled headers, unlike other tests: these were compiled without mutants.
add_library(attn_mutants_gtest INTERFACE)
target_link_libraries(attn_mutants_gtest INTERFACE GTest::gtest_main)
add_executable(reference_mutants EXCLUDE_FROM_ALL ${oracle_units} ${PROJECT_BINARY_DIR}/reference/embedded.cc ${oracle_tests})
add_dependencies(reference_mutants oracle-mutant-tree)
set_target_properties(reference_mutants PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${oracle_folder})
target_include_directories(reference_mutants BEFORE PRIVATE ${oracle_tree})
target_link_libraries(reference_mutants PRIVATE attn_base attn_mutants_gtest Eigen3::Eigen)
target_compile_options(reference_mutants PRIVATE -O2 -g0 -w -Wno-c++11-narrowing "SHELL:-include ${oracle_tree}/reference/mutant.h")
set(unfused ${oracle_units})
list(FILTER unfused EXCLUDE REGEX "/(products|row_loops)\\.cc$")
set_source_files_properties(${unfused} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast)
add_custom_target(reference-mutants DEPENDS reference_mutants)

# The target device-mutants: the same for the CUDA oracle on the executor, with the tests of tests/reference/cuda;
# run_oracle.py --mutants build/full/device-mutants --survivors tests/mutants/DEVICE.md.
set(device_folder ${PROJECT_BINARY_DIR}/device-mutants)
set(device_tree ${CMAKE_CURRENT_BINARY_DIR}/device)
file(GLOB device_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reference/cuda/*)
set(device_packs ${device_tree}/reference/cuda/pack.cc)
add_custom_command(OUTPUT ${device_tree}.stamp BYPRODUCTS ${device_packs} ${device_folder}/mutants.json
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate.py --folder ${PROJECT_SOURCE_DIR}/reference
          --room device --out ${device_tree} -- ${compiler} -I${PROJECT_SOURCE_DIR}/kernels/cuda_source/include ${eigen}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${device_folder}
  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${device_tree}/mutants.json ${device_folder}/mutants.json
  COMMAND ${CMAKE_COMMAND} -E touch ${device_tree}.stamp
  DEPENDS ${oracle_sources} ${device_sources} ${makers}
  COMMENT "Mutants of the oracle on a device" VERBATIM)
add_custom_target(device-mutant-tree DEPENDS ${device_tree}.stamp)
foreach(kernels rows merge gradients)
  file(CONFIGURE OUTPUT ${device_tree}-${kernels}.cc CONTENT "#include \"reference/cuda/${kernels}.cu\"\n")
endforeach()
set(device_tests cuda/executor_test.cc cuda/declared_cases.cc cuda/declared_gradients.cc legal_kernels/legal_cases.cc legal_kernels/legal_kernel.cc legal_kernels/emulation.cc support.cc)
list(TRANSFORM device_tests PREPEND ${PROJECT_SOURCE_DIR}/tests/reference/)
set(device_host cuda_oracle evaluate_forward evaluate_gradients evaluate_merge pack_gradients pack_merge row_results)
list(TRANSFORM device_host REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/reference/cuda/\\1.cc")
add_executable(device_mutants EXCLUDE_FROM_ALL ${device_tree}-rows.cc ${device_tree}-merge.cc ${device_tree}-gradients.cc ${device_packs}
               ${device_host} ${device_tests})
add_dependencies(device_mutants device-mutant-tree)
set_target_properties(device_mutants PROPERTIES OUTPUT_NAME reference_mutants RUNTIME_OUTPUT_DIRECTORY ${device_folder} ENABLE_EXPORTS ON)
target_include_directories(device_mutants BEFORE PRIVATE ${PROJECT_SOURCE_DIR}/kernels/cuda_source/include ${device_tree})
target_link_libraries(device_mutants PRIVATE attn_reference attn_executor attn_mutants_gtest)
target_compile_options(device_mutants PRIVATE -O2 -g0 -w -Wno-c++11-narrowing "SHELL:-include ${device_tree}/reference/mutant.h")
add_custom_target(device-mutants DEPENDS device_mutants)

# The target judge-mutants: the same for properties/judge and the checks of memory after a run, with their tests;
# run_oracle.py --mutants build/full/judge-mutants --survivors tests/mutants/JUDGE.md.
set(judge_folder ${PROJECT_BINARY_DIR}/judge-mutants)
set(judge_tree ${CMAKE_CURRENT_BINARY_DIR}/judge)
file(GLOB_RECURSE judge_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/properties/judge/* ${PROJECT_SOURCE_DIR}/properties/memory/*)
file(GLOB_RECURSE judge_units RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/properties/judge/*.cc)
list(APPEND judge_units properties/case/codec/as_contract.cc properties/memory/extent.cc properties/memory/layout.cc properties/memory/layout_checks.cc
     properties/memory/layout_reads.cc properties/memory/case_poison.cc properties/memory/strays.cc)
list(TRANSFORM judge_units PREPEND ${judge_tree}/)
add_custom_command(OUTPUT ${judge_tree}.stamp BYPRODUCTS ${judge_units} ${judge_folder}/mutants.json
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/generate.py --folder ${PROJECT_SOURCE_DIR}/properties
          --room judge --out ${judge_tree} -- ${compiler} ${eigen}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${judge_folder}
  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${judge_tree}/mutants.json ${judge_folder}/mutants.json
  COMMAND ${CMAKE_COMMAND} -E touch ${judge_tree}.stamp
  DEPENDS ${judge_sources} ${makers}
  COMMENT "Mutants of the judge" VERBATIM)
add_custom_target(judge-mutant-tree DEPENDS ${judge_tree}.stamp)
set(judge_tests
  judge/bad_plan_test.cc judge/execution_test.cc judge/harness_faults_test.cc judge/judge_test.cc judge/oracles_test.cc judge/shape_test.cc
  judge/situations_test.cc judge/trial_test.cc explain/fault_class_test.cc memory/redzones_test.cc memory/layout_support.cc
  memory/layout_test.cc operations/forward/cpu_gpu_bits_test.cc operations/forward/relations_test.cc
  operations/operation_test.cc)
list(TRANSFORM judge_tests PREPEND ${PROJECT_SOURCE_DIR}/tests/properties/)
# All sources of properties/memory are listed, because an object of its library would define these functions again.
add_executable(judge_mutants EXCLUDE_FROM_ALL ${judge_units} ${PROJECT_SOURCE_DIR}/properties/memory/arena.cc
               ${PROJECT_SOURCE_DIR}/properties/memory/inputs.cc ${judge_tests})
add_dependencies(judge_mutants judge-mutant-tree)
set_target_properties(judge_mutants PROPERTIES OUTPUT_NAME reference_mutants RUNTIME_OUTPUT_DIRECTORY ${judge_folder})
target_include_directories(judge_mutants BEFORE PRIVATE ${judge_tree})
target_link_libraries(judge_mutants PRIVATE attn_fakes attn_relations attn_explain attn_draw attn_mutants_gtest Eigen3::Eigen)
target_compile_options(judge_mutants PRIVATE -O2 -g0 -w -Wno-c++11-narrowing "SHELL:-include ${judge_tree}/properties/mutant.h")
add_custom_target(judge-mutants DEPENDS judge_mutants)
