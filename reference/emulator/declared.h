// Whether a plan says enough that its result is known to the last bit.
//
//   if (const std::string why = left_open(problem, plan); !why.empty()) return not_judged(why);
//
// Of what attention.h lets a plan say the reference follows what is told here: tensor-core products,
// exponentials in powers of two, P in the input's format, a running maximum, tiles in order. Anything else is
// left open, and said.
#pragma once

#include <string>

#include "kernels/attention.h"

namespace attnfuzz::literal {

// What the plan does not say, or says in a way that nobody follows: "the plan leaves tile_order open"; or that
// the problem is of a kind that the reference does not know (call/known_features.h). Empty: neither.
std::string left_open(const attn_problem& problem, const attn_plan& plan);

}  // namespace attnfuzz::literal
