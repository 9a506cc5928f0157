// Runs a session on kernels, and judges every call.
//
// After each call the pools must equal the model's bytes, all other memory must be unchanged, and the outputs
// of an attend must be within the oracle's bound for the dense problem of the model's tokens. The first wrong
// call ends the session. A merge is judged on the two results that it was given (Step::split).
//
//   SessionTargets targets(opened);                     // a span of SessionTarget
//   SessionResult r = run_session(session, targets);
//   if (r.verdict.outcome == Outcome::kFail) say(r.step, r.verdict.message);
//
// If no kernel can make a call, the session goes on: the model makes appends and copies itself, and attends are
// left out. SessionResult counts both.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/judge/verdict.h"
#include "properties/operations/outputs.h"
#include "properties/sequences/run/targets.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

// The outputs of an attend, and the plans of its calls.
struct Attended {
  Outputs outputs;
  std::vector<attn_plan> plans;
};

// Calls that kernels were asked to make, by SessionTarget::number and the name of the operation. The appends of
// a kernel with memory of its own are left out, because no other kernel sees what they write. A call that fails
// is judged; one that is refused is not.
struct CallCount {
  uint64_t asked = 0, judged = 0;
};
using CallCounts = std::map<std::pair<size_t, std::string>, CallCount>;
void add(const CallCounts& from, CallCounts& to);

struct SessionResult {
  Verdict verdict;
  size_t step = 0;  // the failing step; without a failure, the number of steps
  // The failing call: "append", "copy_pages", "forward", "forward-first", "forward-others", "merge",
  // "relation".
  std::string call;
  std::string kernel;   // the kernel that failed
  bool second = false;  // the second session of the relation failed by itself, and `step` is one of its steps
  uint64_t calls = 0;   // calls that kernels have made
  uint64_t told = 0;    // steps without a call that a kernel with memory of its own has taken
  CallCounts counts;
  double worst = 0;  // largest error/bound
  // Calls that no kernel has made, and relations that were not judged, by the reason.
  std::map<std::string, uint64_t> left_out;
  // The attends in order; nothing for an attend that was left out.
  std::vector<std::optional<Attended>> attends;
  // Attends whose bits a relation has not compared, because the plans do not promise equal bits. They are
  // within their bounds.
  uint64_t bounded = 0;
};

// Runs the steps, not the relation. The session must be legal. Libraries keep their state from earlier sessions
// unless SessionTargets::renew() is called.
SessionResult run_session(const Session& session, const SessionTargets& targets);

// Why a call that failed once may not have been made, so that a pass proves nothing; empty if it was made.
// `failing`: SessionResult::call of the failure. Any call that was left out may be the failing one if that is
// empty, or if the session ended there. The parts of an attend, their merge and the relations of attends need
// one another, and any call may have failed in the second form of a relation.
std::string left_out_of(const SessionResult& result, const std::string& failing);

}  // namespace attnfuzz::sequences
