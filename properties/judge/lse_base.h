// LSEs of one kernel as another reads them.
//
//   inputs.push_back({kSavedLse, lse_in_base(forward.outputs[kLse], forward.plan.lse_base, plan.lse_base)});
#pragma once

#include <cstdint>
#include <numbers>
#include <vector>

namespace attnfuzz {

// Converts LSEs from one base to another (attn_plan.lse_base); 0 stands for e.
inline std::vector<float> lse_in_base(std::vector<float> lse, int32_t from, int32_t to) {
  if ((from == 2) == (to == 2)) return lse;
  const double factor = from == 2 ? std::numbers::ln2 : 1 / std::numbers::ln2;
  for (float& x : lse) x = static_cast<float>(x * factor);
  return lse;
}

}  // namespace attnfuzz
