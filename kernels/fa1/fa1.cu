// FA-1: one-pass FlashAttention forward on tensor cores. Plan, run, descriptor.
#include <array>
#include <cstdio>

#include "kernels/fa1/launch.h"
#include "kernels/forward/checks.h"
#include "kernels/identity.h"

namespace attn {
namespace {

struct Fa1 {
  static constexpr const char* kName = "fa1";
  static constexpr const char* kDescription =
      "one-pass FlashAttention forward, mma.m16n8k16, cp.async double buffering";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr std::array kVariants = {"small", "large"};
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan);
  static attn_status run(const Call& call, const attn_plan&);
};

Refusal Fa1::plan(const Call& call, attn_plan* plan) {
  const attn_problem& problem = call.problem;
  size_t index;
  if (Refusal refusal = check_device(call.env)) return refusal;
  if (Refusal refusal = choose_shape(kFa1Shapes, problem, call.env, &index)) return refusal;
  const ShapeSpec& shape = kFa1Shapes[index];
  const int64_t q_tiles = ceil_div(problem.seq_q, shape.tile_q);
  if (product_within(q_tiles, problem.heads_q, problem.batch, kMaxBlocks) < 0)
    return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_q * query tiles is too large"};
  const ForwardParams params = make_params(problem, call.tensors, call.env, 1);
  describe_arithmetic(params, plan);
  std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d %s", shape.tile_q, shape.tile_k, shape.dim,
                copy_path(params).c_str());
  plan->tile_q = shape.tile_q;
  plan->tile_k = shape.tile_k;
  plan->num_splits = 1;
  plan->split_tiles = ceil_div(problem.seq_k, shape.tile_k);
  plan->rescales = plan->split_tiles;
  return {};
}

attn_status Fa1::run(const Call& call, const attn_plan&) {
  const auto& [problem, tensors, env] = call;
  size_t index;
  if (Refusal refusal = check_device(env)) return refusal.status;
  if (Refusal refusal = choose_shape(kFa1Shapes, problem, env, &index)) return refusal.status;
  if (problem.batch == 0 || problem.heads_q == 0 || problem.seq_q == 0) return ATTN_OK;
  const ForwardParams params = make_params(problem, tensors, env, 1);
  return problem.dtype == ATTN_F16 ? fa1_launch<F16>(index, params, &env)
                                   : fa1_launch<BF16>(index, params, &env);
}

const attn_kernel kFa1 = plug_in<Fa1>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1 : nullptr; }
