// Relations between two sessions: in each attend that both have, a right kernel gives the same bits.
//
//   SessionResult r = check_session(session, targets);   // the steps, then the relation, if there is one
//
// The keys and their order are the same in both sessions, and so are the sizes of each attend, except with
// `decoded`. A kernel whose plans promise the same work for each row gives the same bits. If the plans of an
// attend do not promise equal bits, because a plan is not deterministic or the plans differ (same_work.h), its
// bits are not compared, and SessionResult::bounded counts it; both results are still judged by the same bound.
// If the second session is not legal, because it runs out of pages, it is not run.
#pragma once

#include <optional>
#include <vector>

#include "properties/sequences/run/run.h"

namespace attnfuzz::sequences {

struct SecondSession {
  Session session;
  // For each attend of the first session, in order: how many attends of this session have its rows, 1 or 2.
  std::vector<size_t> parts;
};

// The second session. Nothing if there is no relation, or if the relation does not apply to this session; *why
// then has the reason.
std::optional<SecondSession> related(const Session& session, std::string* why = nullptr);

// Compares the attends of a session and of its second session. Makes `first` a failure if bits differ, and
// counts in first.bounded the attends that it does not compare.
void compare_attends(SessionResult& first, const SessionResult& second, const Session& session,
                     const std::vector<size_t>& parts);

SessionResult check_session(const Session& session, const SessionTargets& targets);
// Runs the chain in new processes. Only the last session is judged.
SessionResult check_chain(const Chain& chain, const SessionTargets& targets);

}  // namespace attnfuzz::sequences
