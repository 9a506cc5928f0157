// Simple sessions that many bugs of sequences of calls show.
//
// A reduction that removes steps one by one ends with the kinds of steps that it began with. A bug in what a
// kernel remembers of a page then has a smallest session with a truncate, another with a fork, and another
// behind other sessions, and counts as three. So a reduction also tries these sessions, from the simplest on,
// and keeps the first that fails in the same way.
//
//   for (const Session& simple : canonical_sessions(small, "append")) ...
#pragma once

#include <string_view>
#include <vector>

#include "properties/sequences/session.h"

namespace attnfuzz::sequences {

// Sessions that end with the failing call (SessionResult::call), each in a cache with a few pages of several
// keys, and in the chain's own cache. Only those with fewer steps than the chain; or with as many, if the chain
// runs other sessions before its last one, or if its steps are those of a later one here. Empty for a call that
// an append or an attend does not make alone.
std::vector<Session> canonical_sessions(const Chain& chain, std::string_view call);

}  // namespace attnfuzz::sequences
