// Judges outputs of integers, and the bits of states, by the rule of their operation: they must
// equal the reference, or be an admissible choice.
//
// Such an output has no bound, so a tally of it counts elements (OutputKind::kExact) or rows
// (OutputKind::kAdmissible) that are wrong, each with an infinite ratio.
#pragma once

#include <span>
#include <string>

#include "properties/judge/tally.h"
#include "properties/judge/verdict.h"
#include "properties/operations/operation.h"

namespace attnfuzz {

Tally tally_of_integers(const Output& output, const Reference& reference, std::span<const int64_t> got);

// Ends the verdict with the first element, or row, that the tally found wrong.
void object_to_integers(const Output& output, const Reference& reference, const Problem& p,
                        const attn_plan& plan, const Tally& tally, std::span<const int64_t> got, Verdict& v);

// judge_same() for one output of integers.
bool judge_same_integers(const Outputs& a, const Outputs& b, TensorId tensor, const Problem& p,
                         const attn_plan& plan, Kind kind, const std::string& message, Verdict& v);

}  // namespace attnfuzz
