// Runs a session on kernels, and judges every call.
//
// After each call the pools must equal the model's bytes, the rest of the memory must be as it was, and what an attend
// gives must be within the oracle's bound of the dense problem that the model's tokens make. The first call that is
// wrong ends the session.
//
//   SessionTargets targets(opened);                     // Target* of one or more libraries
//   SessionResult r = run_session(session, targets);
//   if (r.verdict.outcome == Outcome::kFail) say(r.step, r.verdict.message);
//
// A library that has no kernel for a call does not stop the session: the suite makes appends and copies itself, and
// leaves attends out. SessionResult counts both.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/judge/target.h"
#include "properties/judge/verdict.h"
#include "properties/operations/outputs.h"
#include "properties/sequences/session.h"
#include "reference/model/calibration.h"

namespace attnfuzz::sequences {

struct SessionTarget {
  Target* target;
  Calibration calibration;
};

// The kernels that can make each kind of call on pages, in the order in which they were given.
struct SessionTargets {
  SessionTargets() = default;
  explicit SessionTargets(std::span<const SessionTarget> all);
  bool empty() const { return append.empty() && copy.empty() && attend.empty(); }

  std::vector<SessionTarget> append, copy, attend;
};

struct SessionResult {
  Verdict verdict;
  size_t step = 0;     // of a failure, or as many as there are
  std::string call;    // of a failure: "append", "copy_pages", "forward", "relation"
  std::string kernel;  // of a failure
  uint64_t calls = 0;  // of kernels
  double worst = 0;    // largest error/bound
  // Calls that no kernel has made, by the reason.
  std::map<std::string, uint64_t> left_out;
  // The outputs of each attend, in order; nothing for one that was left out.
  std::vector<std::optional<Outputs>> attends;
};

// Why a session cannot run, in a sentence; nothing if it can. Says nothing about Session::relation.
std::optional<std::string> objection(const Session& session);

// Runs the steps alone, without the relation. The session must be legal. Libraries forget what they have kept first.
SessionResult run_session(const Session& session, const SessionTargets& targets);

}  // namespace attnfuzz::sequences
