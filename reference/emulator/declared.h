// Tests if a plan says enough that its result is known to the last bit.
//
//   if (const std::string why = left_open(problem, plan); !why.empty()) return not_judged(why);
//
// The emulator follows a part of what attention.h can express: tensor-core products, exponentials in powers
// of two, P in the input's format, a running maximum, tiles in order. Everything else counts as open, and
// the reason says so.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace attnfuzz::emulator {

// The field that the plan leaves open, or sets to something that the emulator does not follow: "the plan
// leaves tile_order open"; or a sentence that the emulator does not know the kind of problem
// (call/known_features.h). Empty: neither.
std::string left_open(const attn_problem& problem, const attn_plan& plan);

}  // namespace attnfuzz::emulator
