// Runs a session on kernels, and judges every call.
//
// After each call the pools must equal the model's bytes, the rest of the memory must be as it was, and what an attend
// gives must be within the oracle's bound of the dense problem that the model's tokens make. The first call that is
// wrong ends the session. A merge is judged by the results that it was given (Step::split).
//
//   SessionTargets targets(opened);                     // a span of SessionTarget
//   SessionResult r = run_session(session, targets);
//   if (r.verdict.outcome == Outcome::kFail) say(r.step, r.verdict.message);
//
// A library that has no kernel for a call does not stop the session: the suite makes appends and copies itself, and
// leaves attends out. SessionResult counts both.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "properties/judge/verdict.h"
#include "properties/operations/outputs.h"
#include "properties/sequences/session.h"
#include "properties/sequences/targets.h"

namespace attnfuzz::sequences {

// What an attend gave, and the plans of its calls.
struct Attended {
  Outputs outputs;
  std::vector<attn_plan> plans;
};

struct SessionResult {
  Verdict verdict;
  size_t step = 0;  // of a failure, or as many as there are
  // Of a failure: "append", "copy_pages", "forward", "forward-first", "forward-others", "merge", "relation".
  std::string call;
  std::string kernel;  // of a failure
  bool second =
      false;  // the failure is one of the second session of the relation, by itself; `step` is one of its steps
  uint64_t calls = 0;              // that kernels have made
  std::vector<uint64_t> calls_of;  // by SessionTarget::number; kernels behind its end have made none
  double worst = 0;                // largest error/bound
  // Calls that no kernel has made, and relations that were not judged, by the reason.
  std::map<std::string, uint64_t> left_out;
  // In order; nothing for one that was left out.
  std::vector<std::optional<Attended>> attends;
  // Attends of which a relation has not compared the bits, since the plans do not promise equal ones. Their bounds
  // hold.
  uint64_t bounded = 0;
};

// Runs the steps alone, without the relation. The session must be legal. Libraries keep what they know of sessions
// before: see SessionTargets::renew().
SessionResult run_session(const Session& session, const SessionTargets& targets);

}  // namespace attnfuzz::sequences
