// Relations between two sessions: a right kernel gives the same bits in both, wherever both attend.
//
//   SessionResult r = check_session(session, targets);   // the steps, then the relation, if there is one
//
// The keys, their order and the sizes of each attend are the same in both sessions, so a kernel whose results depend on
// nothing else gives the same bits. If the plans of an attend do not promise equal bits, because one is not
// deterministic or they differ (same_work.h), its bits are not compared: each is within its bound of the same problem,
// and SessionResult::bounded counts it. A second session that is not legal, because pages run out, is not run.
#pragma once

#include <optional>
#include <vector>

#include "properties/sequences/run.h"

namespace attnfuzz::sequences {

struct SecondSession {
  Session session;
  // For each attend of the first session, in order: how many attends of this one together have its rows (1 or 2).
  std::vector<size_t> parts;
};

// The second session; nothing if there is no relation, or the reason in *why if it says nothing about this session.
std::optional<SecondSession> related(const Session& session, std::string* why = nullptr);

// Compares the attends of a session and of its second one. Fails `first` if bits differ, and counts in
// first.bounded what it does not compare.
void compare_attends(SessionResult& first, const SessionResult& second, const Session& session,
                     const std::vector<size_t>& parts);

SessionResult check_session(const Session& session, const SessionTargets& targets);
// The chain in new processes. A failure of a session before the last has no part in the result.
SessionResult check_chain(const Chain& chain, const SessionTargets& targets);

}  // namespace attnfuzz::sequences
