// Finds a smaller session that fails in the same way: the same class of failure, in the same call of a kernel.
//
//   ReducedSession small = reduce_session(session, failed, check, 60);
//
// Steps are removed in shrinking chunks (ddmin), with the steps that depend on them; then forks become new sequences,
// appends shrink, and the sizes of the cache. Every candidate that still fails is kept, and is smaller than the one
// before, so the search ends.
#pragma once

#include <functional>

#include "properties/sequences/run.h"

namespace attnfuzz::sequences {

struct ReducedSession {
  Session session;
  SessionResult result;
  int evaluations = 0;
};

using CheckSession = std::function<SessionResult(const Session&)>;

// The steps without those that are no longer legal. Replays follow the steps that they repeat.
Session repaired(const Session& session);

ReducedSession reduce_session(const Session& session, const SessionResult& failed, const CheckSession& check,
                              double seconds);

}  // namespace attnfuzz::sequences
