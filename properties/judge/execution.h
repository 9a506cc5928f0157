// One case on one target: laid out, planned, given its workspace; then its calls.
// Whoever runs a kernel, to judge it or to look at it, does it through this.
//
//   Execution e(c, target);
//   if (const std::string why = e.why_not(); !why.empty()) return refuse(why);
//   for (const Call& call : c.calls) {
//     const RunReply reply = e.run(call);
//     if (const std::string why = failure(reply); !why.empty()) return say(why);
//   }
//   Reference r = e.evaluate(calibration);  Outputs got = e.outputs();
//
// At most one lives in a target's arena at a time. Nothing here judges.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "properties/judge/operation.h"
#include "properties/judge/target.h"
#include "properties/memory/layout.h"

namespace attnfuzz {

struct Execution {
  // The case must be legal (case.h).
  Execution(const Case& c, Target& target);

  // Why it cannot run, in a sentence; empty if run() may be called.
  std::string why_not() const;
  // That part of it which is not the kernel's own answer: it plans for a workspace
  // larger, or aligned more, than is given.
  std::string no_room() const;

  // Outputs and workspace made ready as the call says, and the kernel run.
  RunReply run(const Call& call);
  // A stage alone, on memory as it is.
  RunReply run(Stage stage, int stream = 0);
  // What the last call left, and what it should have.
  Outputs outputs() const;
  Reference evaluate(const Calibration& calibration, RowSample sample = {}, bool exact = true) const;

  const Case c;
  Target& target;
  const Operation& operation;
  // Seconds spent so far, on memory and in the target.
  double lay_out_s = 0, kernel_s = 0;

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();

 public:
  LaidOut laid;
  attn_env env;
  PlanReply planned;
  const attn_plan& plan = planned.plan;  // nothing in it unless planned.status is ATTN_OK
  std::optional<MemoryFault> written_by_plan;  // plan() must write nothing but the plan
};

// What the target plans for a case, by where its tensors would lie and what they are: nothing is laid out.
// Leaves the target without memory (Target::memory).
PlanReply plan_alone(const Case& c, Target& target);

// Why what was planned cannot run; empty if it can.
std::string why_not(const PlanReply& planned);

// How a plan or a run failed, for a person; empty if it did not.
std::string failure(const PlanReply& reply);
std::string failure(const RunReply& reply);

}  // namespace attnfuzz
