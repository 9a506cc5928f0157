# With ATTNFUZZ_TURNS, slow targets and tests take turns: each is built and run only on one day in several. The
# configuration prints which of them wait for another day. Without ATTNFUZZ_TURNS none waits.
include_guard(GLOBAL)
set(ATTNFUZZ_DAY "" CACHE STRING "Day whose turns are taken, in days since 1970; empty: the day of configuration")

function(attnfuzz_day result)
  string(TIMESTAMP seconds %s UTC)
  math(EXPR day "${seconds} / 86400")
  if(NOT ATTNFUZZ_DAY STREQUAL "")
    set(day ${ATTNFUZZ_DAY})
  endif()
  set(${result} ${day} PARENT_SCOPE)
endfunction()

# attnfuzz_turn(<place> <days> <result>): true if today is the turn of <place>, a number from 0 to <days> - 1. Programs,
# libraries and tests that need each other have the same place. Choose places such that each day takes about as long.
function(attnfuzz_turn place days result)
  attnfuzz_day(day)
  math(EXPR wait "(${day} + ${place}) % ${days}")
  if(ATTNFUZZ_TURNS AND wait)
    set(${result} FALSE PARENT_SCOPE)
  else()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# attnfuzz_wait(<what> <name>...): prints that <name>... wait.
function(attnfuzz_wait what)
  if(ARGN)
    list(JOIN ARGN " " names)
    message(STATUS "Waiting for another day (ATTNFUZZ_TURNS=ON): ${what} ${names}")
  endif()
endfunction()

# attnfuzz_target_turn(<place> <days> <target>...): on other days `all` does not build these targets.
function(attnfuzz_target_turn place days)
  attnfuzz_turn(${place} ${days} today)
  if(NOT today)
    set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    attnfuzz_wait("target" ${ARGN})
  endif()
endfunction()

# attnfuzz_todays_build(<place> <days> <result>): on one day in <days>, the result is one of ATTNFUZZ_BUILDS, each in
# turn. On other days, or if ATTNFUZZ_BUILDS is empty, it is empty.
function(attnfuzz_todays_build place days result)
  set(todays)
  attnfuzz_turn(${place} ${days} today)
  if(ATTNFUZZ_BUILDS AND today)
    attnfuzz_day(day)
    list(LENGTH ATTNFUZZ_BUILDS count)
    math(EXPR turn "(${day} + ${place}) / ${days} % ${count}")
    list(GET ATTNFUZZ_BUILDS ${turn} todays)
  endif()
  set(${result} ${todays} PARENT_SCOPE)
endfunction()
