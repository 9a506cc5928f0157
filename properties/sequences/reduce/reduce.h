// Finds a smaller session that fails in the same way: the same class of failure, in the same call of a kernel.
//
//   ReducedSession small = reduce_session(session, failed, check, 60);
//
// Steps are removed in shrinking chunks (ddmin), together with the steps that depend on them. Several appends
// are merged into one. Then forks become new sequences, replays become calls with plans of their own, and
// counts and the sizes of the cache shrink. A candidate that still fails in the same way is kept. The search
// ends after a round that changes nothing, or when the time is over.
#pragma once

#include <functional>

#include "properties/sequences/run/run.h"

namespace attnfuzz::sequences {

struct ReducedSession {
  Session session;
  SessionResult result;
  int evaluations = 0;
};

using CheckSession = std::function<SessionResult(const Session&)>;

// True if both are failures of the same class, in the same call of a kernel.
bool same_failure(const SessionResult& a, const SessionResult& b);

// Removes step n. Replays of it become illegal, and repaired() removes them.
void drop_step(Session& session, size_t n);
// The session without the steps that are not legal. Replays still refer to the steps that they repeat.
Session repaired(const Session& session);

ReducedSession reduce_session(const Session& session, const SessionResult& failed, const CheckSession& check,
                              double seconds);

}  // namespace attnfuzz::sequences
