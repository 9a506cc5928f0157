// The common part of fake kernels: a plan that accepts, and a descriptor.
#pragma once

#include <cstring>

#include "kernels/attention.h"

namespace fake {

inline attn_status yes(const attn_problem*, const attn_tensors*, const attn_env*, attn_plan* plan, char*,
                       uint64_t) {
  std::strcpy(plan->path, "fake");
  plan->tile_q = plan->tile_k = 64;
  plan->num_splits = 1;
  plan->workspace_align = 1;
  return ATTN_OK;
}

inline attn_status nothing(const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env*) {
  return ATTN_OK;
}

using Plan = decltype(attn_kernel::plan);
using Run = decltype(attn_kernel::run);

constexpr attn_kernel kernel(const char* name, Plan plan, Run run) {
  attn_kernel k = {};
  k.size = sizeof(attn_kernel);
  k.abi = ATTN_ABI;
  k.name = name;
  k.description = "a fake for tests";
  k.backend = ATTN_CPU;
  k.plan = plan;
  k.run = run;
  return k;
}

}  // namespace fake
