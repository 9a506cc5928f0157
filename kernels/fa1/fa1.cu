// FA-1: one-pass FlashAttention forward on tensor cores. Plan, run, descriptor.
#include <cstdio>

#include "kernels/fa1/launch.h"
#include "kernels/forward/checks.h"
#include "kernels/identity.h"

namespace attn {
namespace {

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t reason_size) {
  if (Refusal refusal = check_problem(*problem, *tensors, *env)) return refuse(refusal, reason, reason_size);
  size_t index;
  if (Refusal refusal = choose_shape(kFa1Shapes, *problem, *env, &index))
    return refuse(refusal, reason, reason_size);
  const ShapeSpec& shape = kFa1Shapes[index];
  const int64_t q_tiles = ceil_div(problem->seq_q, shape.tile_q);
  if (product_within(q_tiles, problem->heads_q, problem->batch, kMaxBlocks) < 0) {
    return refuse({ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_q * query tiles is too large"},
                  reason, reason_size);
  }
  const ForwardParams params = make_params(*problem, *tensors, *env, 1);
  *plan = {};
  plan->size = sizeof(attn_plan);
  describe_arithmetic(params, plan);
  std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d %s", shape.tile_q, shape.tile_k, shape.dim,
                copy_path(params).c_str());
  plan->tile_q = shape.tile_q;
  plan->tile_k = shape.tile_k;
  plan->num_splits = 1;
  plan->split_tiles = ceil_div(problem->seq_k, shape.tile_k);
  plan->rescales = plan->split_tiles;
  return ATTN_OK;
}

attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan*,
                const attn_env* env) {
  size_t index;
  if (Refusal refusal = check_problem(*problem, *tensors, *env)) return refusal.status;
  if (Refusal refusal = choose_shape(kFa1Shapes, *problem, *env, &index)) return refusal.status;
  if (problem->batch == 0 || problem->heads_q == 0 || problem->seq_q == 0) return ATTN_OK;
  const ForwardParams params = make_params(*problem, *tensors, *env, 1);
  return problem->dtype == ATTN_F16 ? fa1_launch<F16>(index, params, env)
                                    : fa1_launch<BF16>(index, params, env);
}

constexpr const char* kVariants[] = {"small", "large"};

const attn_kernel kFa1 = {
    .size = sizeof(attn_kernel),
    .abi = ATTN_ABI,
    .name = "fa1",
    .description = "one-pass FlashAttention forward, mma.m16n8k16, cp.async double buffering",
    .backend = kBackend,
    .variant_count = 2,
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

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1 : nullptr; }
