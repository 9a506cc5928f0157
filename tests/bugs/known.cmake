# attnfuzz_known_bugs(<result>): the patches in the folders below known/.
# attnfuzz_known_bug(<name> <result>): the patch of that name.
#
# A folder is only for readers: what a bug is follows from its patch. A name stands for one bug in targets, tests and
# the matrix, so two patches of one name are an error.
include_guard(GLOBAL)

function(attnfuzz_known_bugs result)
  set(watched CONFIGURE_DEPENDS)
  if(CMAKE_SCRIPT_MODE_FILE)
    set(watched)  # a script has no build to configure again
  endif()
  file(GLOB_RECURSE patches ${watched} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/known/*.patch)
  set(names)
  foreach(patch IN LISTS patches)
    get_filename_component(name ${patch} NAME_WE)
    if(name IN_LIST names)
      message(FATAL_ERROR "tests/bugs/known has two patches ${name}.patch: rename one")
    endif()
    list(APPEND names ${name})
  endforeach()
  set(${result} ${patches} PARENT_SCOPE)
endfunction()

function(attnfuzz_known_bug name result)
  attnfuzz_known_bugs(patches)
  list(FILTER patches INCLUDE REGEX "/${name}[.]patch$")
  if(NOT patches)
    message(FATAL_ERROR "tests/bugs/known has no ${name}.patch")
  endif()
  set(${result} ${patches} PARENT_SCOPE)
endfunction()
