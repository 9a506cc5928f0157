// Simple sessions that many bugs of sequences of calls show.
//
// A reduction that removes steps one by one ends with the kinds of steps that it began with. A bug in what a
// kernel remembers of a page then has one smallest session with a truncate and another behind other sessions,
// and counts as two. So a reduction also tries these sessions, from the simplest on, and keeps the first that
// fails in the same way each time. A session must not show another bug, so it has no kind of step that the
// chain has not.
//
//   for (const Session& simple : canonical_sessions(small, "append")) ...
#pragma once

#include <string_view>
#include <vector>

#include "properties/sequences/session.h"

namespace attnfuzz::sequences {

// Sessions that end with the failing call (SessionResult::call), in the chain's own cache with at least four
// pages, and with the largest capacity of its sessions. Only those with fewer steps than the chain, or with as many of the same kinds, whose kinds of steps
// other than new, append and attend are among the chain's. The end of a session before the last one counts as a
// truncate. Empty for a call that an append or an attend does not make alone.
std::vector<Session> canonical_sessions(const Chain& chain, std::string_view call);

}  // namespace attnfuzz::sequences
