// Relations between two sessions: a right kernel gives the same bits in both, wherever both attend.
//
//   SessionResult r = check_session(session, targets);   // the steps, then the relation, if there is one
//
// The keys, their order and the sizes of each attend are the same in both sessions, so a kernel whose results depend on
// nothing else gives the same bits. A second session that is not legal, because pages run out, is not run.
#pragma once

#include <optional>

#include "properties/sequences/run.h"

namespace attnfuzz::sequences {

// The second session; nothing if the relation says nothing about this one.
std::optional<Session> related(const Session& session);

SessionResult check_session(const Session& session, const SessionTargets& targets);

}  // namespace attnfuzz::sequences
