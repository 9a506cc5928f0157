// The steps of judging one call, each a free function that writes into a verdict.
//
// Trial::run() strings them together; relations that run a kernel's stages use
// them one by one. Every function returns true if there is nothing to object
// to, else it has ended the verdict: outcome, kind, a message for a person, and
// where. Comparing costs about as much as reading both arrays once.
//
//   Verdict v;
//   if (!accept_plan(target.plan(...), v)) return v;
//   if (!accept_run(target.run(...), v)) return v;
//   if (!accept_memory(laid.check_memory(), problem, plan, v)) return v;
//   judge_outputs(reference, problem, plan, execution.outputs(), v);
#pragma once

#include <optional>
#include <span>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/bad_plan.h"
#include "properties/judge/operation.h"
#include "properties/judge/target.h"
#include "properties/judge/verdict.h"
#include "properties/memory/layout.h"
#include "reference/oracle.h"

namespace attnfuzz {

// Ends the verdict with a failure; a verdict that has ended already stays as it is.
void fail(Verdict& v, Kind kind, std::string message);

// OK with a sensible plan; a refusal with a reason ends in kReject, anything else in kFail.
bool accept_plan(const PlanReply& reply, Verdict& v);

// A run that finished, and finished well.
bool accept_run(const RunReply& reply, Verdict& v);

// Guards, gaps, inputs, completeness.
bool accept_memory(const std::optional<MemoryFault>& fault, const Problem& p, const attn_plan& plan,
                   Verdict& v);

// The outputs that are wanted against the oracle. Adds to v.worst and v.ratios, also
// where all is well. `c` gives V to recognise the shape of an error by.
bool judge_outputs(const Reference& reference, const Problem& p, const attn_plan& plan, const Outputs& outputs,
                   Verdict& v, const Case* c = nullptr);

// How the elements of an output that are marked as bad lie and look.
std::vector<Shape> shape_of(const Reference& reference, const Expected& expected, const Problem& p,
                            const attn_plan& plan, std::span<const float> got, const Case* c,
                            std::span<const uint8_t> bad);

// Bit for bit, NaN equal to NaN, of the outputs that both have. On a difference
// ends the verdict with `kind` and where; got is of `b`, expected of `a`.
bool judge_same(const Outputs& a, const Outputs& b, const Problem& p, const attn_plan& plan, Kind kind,
                const std::string& message, Verdict& v);

// The first index where they differ in bits, both-NaN aside; nothing if nowhere.
std::optional<int64_t> first_difference(std::span<const float> a, std::span<const float> b);

// Where row `row`, column d of an output lies.
Where where_is(TensorId tensor, const Problem& p, const attn_plan& plan, int64_t row, int64_t d);

// "o(b=0,h=1,q=64,d=3)", "lse(b=0,h=1,q=64)"
std::string name_of(const Where& where);

// Six digits, or as many as tell a float from its neighbours: "0.25", "nan", "-inf".
std::string digits(double x);

}  // namespace attnfuzz
