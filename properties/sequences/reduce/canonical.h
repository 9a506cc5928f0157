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

#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

// Returns sessions that end with the failing call (SessionResult::call). They use the chain's own cache, with
// at least four pages and the largest capacity of its sessions. Each has fewer steps than the chain, or as many
// of the same kinds. Beside new, append and attend it has only kinds of steps that the chain has; the end of a
// session before the last one counts as a truncate. Returns none for a call that an append or an attend does
// not make alone.
std::vector<Session> canonical_sessions(const Chain& chain, std::string_view call);

}  // namespace attnfuzz::sequences
