// The sm_90a path of FA-1 as a kernel of its own, in one small instantiation, for the
// CPU executor: what that path does not take is refused.
#include <cstdio>

#include "kernels/fa1/hopper/hopper.cu"
#include "kernels/fa1/hopper/launch.h"
#include "kernels/identity.h"

ATTN_HOPPER_SHAPE(Hopper64);

namespace attn {
namespace {

// The choice for a checked problem, on whatever device; -1: refused.
int choose(const attn_problem& problem, const attn_env& env, const ForwardParams& params) {
  if (problem.dim_qk > Hopper64::kSpec.dim || problem.dim_v > Hopper64::kSpec.dim) return -1;
  attn_env hopper = env;
  hopper.compute_capability = 90;
  hopper.variant = 0;
  return hopper_choice(problem, hopper, params);
}

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t reason_size) {
  if (Refusal refusal = check_problem(*problem, *tensors, *env)) return refuse(refusal, reason, reason_size);
  if (env->variant < 0 || env->variant > 1)
    return refuse({ATTN_INVALID, "there is no such variant"}, reason, reason_size);
  const ForwardParams params = make_params(*problem, *tensors, *env, 1);
  if (choose(*problem, *env, params) < 0) {
    return refuse({ATTN_UNSUPPORTED, "the path for sm_90a does not take this problem"}, reason, reason_size);
  }
  const HopperSpec& spec = Hopper64::kSpec;
  *plan = {};
  plan->size = sizeof(attn_plan);
  describe_arithmetic(params, plan);
  std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d wgmma", spec.tile_q(), spec.tile_k, spec.dim);
  plan->tile_q = spec.tile_q();
  plan->tile_k = spec.tile_k;
  plan->num_splits = 1;
  plan->split_tiles = ceil_div(problem->seq_k, spec.tile_k);
  plan->rescales = plan->split_tiles;
  return ATTN_OK;
}

attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan*,
                const attn_env* env) {
  if (Refusal refusal = check_problem(*problem, *tensors, *env)) return refusal.status;
  const ForwardParams params = make_params(*problem, *tensors, *env, 1);
  const int choice = choose(*problem, *env, params);
  return choice < 0 ? ATTN_UNSUPPORTED : hopper_run(choice, *problem, params, env);
}

constexpr const char* kVariants[] = {"small"};

const attn_kernel kFa1h = {
    .size = sizeof(attn_kernel),
    .abi = ATTN_ABI,
    .name = "fa1h",
    .description = "the sm_90a path of fa1 alone, on the CPU executor",
    .backend = kBackend,
    .variant_count = 1,
    .variants = kVariants,
    .build = &attn_build_identity,
    .plan = plan,
    .run = run,
    .partials = nullptr,
    .partial = nullptr,
    .reduce = nullptr,
};

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1h : nullptr; }
