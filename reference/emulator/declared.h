// Tests if a plan determines its result to the last bit.
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

// Empty if the emulator can compute the result. Otherwise a sentence about the first field that the plan leaves
// open or sets to something that the emulator does not follow, or about an unknown kind of problem
// (call/known_features.h).
std::string left_open(const attn_problem& problem, const attn_plan& plan);

}  // namespace attnfuzz::emulator
