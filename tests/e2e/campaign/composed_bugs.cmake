# Twenty known bugs in four kernels, five in each: a campaign must report each bug
# once, reduced, and nothing else (campaign_bugs.py).
#
#   ninja -C build/full composed-bugs && ctest --test-dir build/full -L campaign-bugs
#
# The five patches of a kernel apply together, and no bug hides another: the smallest
# case of each bug passes on the kernels that have only one of the other four bugs. If a
# case failed with two bugs, nobody could say which bug it shows. campaign_bugs.py checks
# this: a finding whose case fails on two of these kernels is an error.
set(composed_fa1-a masked-tile-nan kv-head-modulo window-left-exclusive cap-after-bias no-query-grid)
set(composed_fa1-b mask-polarity v-stride-assumed head-dim-unchecked tiles-of-first-entry v-steps-by-other-rows)
set(composed_fa1-c causal-end-not-clamped heads-not-covered lse-stride-hardcoded pitch-unchecked tanh-of-two-exponentials)
set(composed_splitk-d reduction-double-count small-mask-as-causal batch-stride-derived packed-lse-rows window-right-dropped)

set(bugs ${PROJECT_SOURCE_DIR}/tests/bugs)
include(${bugs}/known.cmake)
find_program(ATTNFUZZ_PATCH patch REQUIRED)
file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.h ${PROJECT_SOURCE_DIR}/kernels/*.cu)
list(FILTER kernel_files EXCLUDE REGEX "/kernels/(executor|cuda_source)/")
file(GLOB_RECURSE overlay_files CONFIGURE_DEPENDS ${bugs}/one_shape/*.h ${bugs}/one_shape/*.cu)
add_custom_target(composed-bugs)
set(arguments)
foreach(name fa1-a fa1-b fa1-c splitk-d)
  string(REGEX REPLACE "-.*" "" kernel ${name})
  set(tree ${CMAKE_CURRENT_BINARY_DIR}/composed/${name})
  set(patches)
  foreach(bug IN LISTS composed_${name})
    attnfuzz_known_bug(${bug} patch)
    list(APPEND patches ${patch})
    list(APPEND arguments ${name}=${patch})
    add_dependencies(composed-bugs bug-${bug})
  endforeach()
  set(made)
  foreach(file IN LISTS kernel_files)
    file(RELATIVE_PATH file ${PROJECT_SOURCE_DIR} ${file})
    list(APPEND made ${tree}/${file})
  endforeach()
  add_custom_command(OUTPUT ${tree}.stamp BYPRODUCTS ${made}
    COMMAND ${CMAKE_COMMAND} "-Dpatches=${patches}" -D source=${PROJECT_SOURCE_DIR} -D overlay=${bugs}/one_shape
            -D tree=${tree} -D stamp=${tree}.stamp -D program=${ATTNFUZZ_PATCH}
            -P ${bugs}/apply.cmake
    DEPENDS ${patches} ${kernel_files} ${overlay_files} ${bugs}/apply.cmake ${bugs}/head.cmake
    COMMENT "Known bugs in one tree: ${name}" VERBATIM)
  add_custom_target(composed-tree-${name} DEPENDS ${tree}.stamp)
  set(sources ${made})
  list(FILTER sources INCLUDE REGEX "/kernels/(${kernel}/${kernel}(_[a-z0-9]+)?|forward/[a-z0-9_]+)\\.cu$")
  attnfuzz_add_kernel(NAME composed-${name} BACKENDS cpu BUILDS plain SOURCES ${sources} INCLUDES ${tree} ROOT ${tree}
                      DIRECTORY ${PROJECT_BINARY_DIR}/composed)
  set_target_properties(attn_composed-${name}_cpu PROPERTIES EXCLUDE_FROM_ALL TRUE)
  add_dependencies(attn_composed-${name}_cpu composed-tree-${name})
  add_dependencies(composed-bugs attn_composed-${name}_cpu)
endforeach()
find_package(Python3 COMPONENTS Interpreter)
if(Python3_Interpreter_FOUND)
  add_test(NAME campaign.bugs.build
    COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target composed-bugs attnfuzz attnfuzz-worker-cpu attn_seeded_bug_cpu)
  set_tests_properties(campaign.bugs.build PROPERTIES FIXTURES_SETUP composed LABELS "campaign-bugs;long" TIMEOUT 3600)
  add_test(NAME campaign.bugs
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/campaign_bugs.py $<TARGET_FILE:attnfuzz>
            ${PROJECT_BINARY_DIR}/composed ${PROJECT_BINARY_DIR}/bugs 5m ${arguments})
  set_tests_properties(campaign.bugs PROPERTIES FIXTURES_REQUIRED composed LABELS "campaign-bugs;long" TIMEOUT 3600)
endif()
