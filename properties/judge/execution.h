// Runs one case on one target: it lays out the case, plans, gives the workspace, and makes the calls.
// Everything that runs a kernel, to judge it or to examine it, uses Execution.
//
//   Execution e(c, target);
//   if (const std::string why = e.why_not(); !why.empty()) return refuse(why);
//   for (const Call& call : c.calls) {
//     const RunReply reply = e.run(call);
//     if (const std::string why = failure(reply); !why.empty()) return say(why);
//   }
//   Reference r = e.evaluate(calibration);  Outputs got = e.outputs();
//
// At most one Execution lives in a target's arena at a time. It does not judge.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "properties/judge/target/target.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"

namespace attnfuzz {

struct Execution {
  // The case must be legal (case.h). `earlier`: the plan by which it runs, made for another case of the
  // same sizes and layout. The kernel is then not asked for one.
  Execution(const Case& c, Target& target, const attn_plan* earlier = nullptr);

  // Why the case cannot run, in a sentence; empty if run() may be called.
  std::string why_not() const;
  // Why the case cannot run although the kernel accepted it: its plan asks for a larger workspace or alignment
  // than is given. Empty if there is no such reason.
  std::string no_room() const;

  // Prepares outputs and workspace as the call says, and runs the kernel.
  RunReply run(const Call& call);
  // Runs only one stage, on memory as it is.
  RunReply run(Stage stage, int stream = 0);
  // The outputs of the last call, and what they should be.
  Outputs outputs() const;
  Reference evaluate(const Calibration& calibration, RowSample sample = {}, bool exact = true) const;

  const Case c;
  Target& target;
  const Operation& operation;
  // Seconds spent so far on memory and in the target.
  double lay_out_s = 0, kernel_s = 0;

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start_ = Clock::now();

 public:
  LaidOut laid;
  attn_env env;
  PlanReply planned;
  const attn_plan& plan = planned.plan;        // empty unless planned.status is ATTN_OK
  std::optional<MemoryFault> written_by_plan;  // plan() must write nothing but the plan
};

// The arguments of plan() for a legal case. Tensors have the addresses that they would get, but nothing is laid
// out. Cases that differ only in numbers, or in env.variant, give the same question but for its `env.variant`.
struct PlanQuestion {
  attn_problem problem;
  attn_tensors tensors;
  attn_env env;
};
PlanQuestion question_of(const Case& c, Target& target);

// Returns the target's plan. Afterwards the target has no memory (Target::memory).
PlanReply plan_alone(const PlanQuestion& question, Target& target);
// The same for a case, which may be illegal.
PlanReply plan_alone(const Case& c, Target& target);

// Why a plan cannot run; empty if it can.
std::string why_not(const PlanReply& planned);

// A text for people about the failure of a plan or a run; empty if it did not fail.
std::string failure(const PlanReply& reply);
std::string failure(const RunReply& reply);

}  // namespace attnfuzz
