// The steps of judging one call, each a free function that writes into a verdict.
//
// Trial::run() calls them in order; relations that run a kernel's stages call them one by one. Each returns
// true if it has no objection. Otherwise it has ended the verdict: outcome, kind, a message for people, and
// the place. A comparison costs about as much as reading both arrays once.
//
//   Verdict v;
//   if (!accept_plan(target.plan(...), v)) return v;
//   if (!accept_run(target.run(...), v)) return v;
//   if (!accept_memory(laid.check_memory(), problem, plan, v)) return v;
//   judge_outputs(operation, reference, problem, plan, execution.outputs(), v);
#pragma once

#include <optional>
#include <span>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/bad_plan.h"
#include "properties/judge/target/target.h"
#include "properties/judge/verdict.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "reference/oracle.h"

namespace attnfuzz {

// Ends the verdict with a failure. A verdict that has already ended stays as it is.
void fail(Verdict& v, Kind kind, std::string message);

// True for ATTN_OK with a possible plan. A refusal with a reason ends in kRefused, anything else in kFail.
bool accept_plan(const PlanReply& reply, Verdict& v);

// True if the run finished with ATTN_OK.
bool accept_run(const RunReply& reply, Verdict& v);

// Checks redzones, gaps, inputs and completeness.
bool accept_memory(const std::optional<MemoryFault>& fault, const Problem& p, const attn_plan& plan,
                   Verdict& v);

// Compares the wanted outputs of the operation with the oracle. If the reference belongs to another operation, or has
// no values for an output that was written, the verdict is kOracle, so that nothing passes unjudged. Updates v.worst
// and v.ratios even if everything is right. `c` supplies V, by which the shape of an error is recognised.
bool judge_outputs(const Operation& operation, const Reference& reference, const Problem& p,
                   const attn_plan& plan, const Outputs& outputs, Verdict& v, const Case* c = nullptr);

// The shapes of the error: patterns in the places and values of those elements of an output that are marked as bad.
std::vector<Shape> shape_of(const Reference& reference, const Expected& expected, const Problem& p,
                            const attn_plan& plan, std::span<const float> got, const Case* c,
                            std::span<const uint8_t> bad);

// Compares bit for bit the outputs that both have; NaN equals NaN. A difference ends the verdict with
// `kind` and the place; `got` comes from `b`, `expected` from `a`.
bool judge_same(const Outputs& a, const Outputs& b, const Problem& p, const attn_plan& plan, Kind kind,
                const std::string& message, Verdict& v);

// The first index at which the bits differ, except where both are NaN; nothing if there is none.
std::optional<int64_t> first_difference(std::span<const float> a, std::span<const float> b);

// The place of row `row`, column d of an output.
Where where_is(TensorId tensor, const Problem& p, const attn_plan& plan, int64_t row, int64_t d);

// "o(b=0,h=1,q=64,d=3)", "lse(b=0,h=1,q=64)"
std::string name_of(const Where& where);

// Six digits, or as many as distinguish a float from its neighbours: "0.25", "nan", "-inf".
std::string digits(double x);

}  // namespace attnfuzz
