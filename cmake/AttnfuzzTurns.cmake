# Turns. With ATTNFUZZ_TURNS, what takes long is built and tested on one day in several. The configuration prints what
# waits for another day. Without ATTNFUZZ_TURNS nothing waits.
include_guard(GLOBAL)
set(ATTNFUZZ_DAY "" CACHE STRING "The day whose turn it is, as days since 1970; empty: the day of the configuration (UTC)")

function(attnfuzz_day result)
  string(TIMESTAMP seconds %s UTC)
  math(EXPR day "${seconds} / 86400")
  if(NOT ATTNFUZZ_DAY STREQUAL "")
    set(day ${ATTNFUZZ_DAY})
  endif()
  set(${result} ${day} PARENT_SCOPE)
endfunction()

# attnfuzz_turn(<place> <days> <result>): true if today is the turn of <place>, one of <days> (0, 1, ...). Programs, libraries
# and tests that need each other have the same place. Choose places such that each day takes about as long.
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

# attnfuzz_todays_build(<place> <days> <result>): on one day in <days> one of ATTNFUZZ_BUILDS, which each have their turn.
# Empty on other days, and if ATTNFUZZ_BUILDS is.
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
