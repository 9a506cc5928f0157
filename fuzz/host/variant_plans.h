// Asks a target for its plans of one call in several variants, with one round trip to the worker.
//
//   auto* variants = dynamic_cast<VariantPlans*>(&target);
//   for (const PlanReply& reply : variants->plans(problem, tensors, env, 2)) ...   // of the variants 0, 1 and 2
#pragma once

#include <cstdint>
#include <vector>

#include "properties/judge/target/target.h"

namespace attnfuzz {

class VariantPlans {
 public:
  virtual ~VariantPlans() = default;
  // Returns the answers of Target::plan() for the variants 0 to `most`, in this order, if the target has no
  // memory (Target::memory). If the list is empty, ask for each variant by Target::plan(). It is empty if one
  // of the calls crashed, hung or reported a fault, and if `most` is above what a worker takes at once.
  virtual std::vector<PlanReply> plans(const attn_problem& problem, const attn_tensors& tensors,
                                       const attn_env& env, int32_t most) = 0;
};

}  // namespace attnfuzz
