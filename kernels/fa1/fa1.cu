// FA-1: one-pass FlashAttention forward on tensor cores. Plan, run, descriptor.
#include <array>
#include <cstdio>

#include "kernels/fa1/ampere/ampere.h"
#include "kernels/fa1/hopper/hopper.h"
#include "kernels/fa1/launch.h"
#include "kernels/forward/checks.h"
#include "kernels/forward/paths.h"
#include "kernels/identity.h"

namespace attn {
namespace {

// True if this library has the path for sm_90a.
constexpr bool kHopper = kSm90a;

struct Fa1 {
  static constexpr const char* kName = "fa1";
  static constexpr const char* kDescription =
      "one-pass FlashAttention forward, wgmma and tensor copies on sm_90a, else mma.m16n8k16 and cp.async";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_SINK | ATTN_FEATURE_ALIBI | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED |
      ATTN_FEATURE_KEY_STEP;
  static constexpr std::array kVariants = {"small", "large"};
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan);
  static attn_status run(const Call& call, const attn_plan&);
};

void describe(const attn_problem& problem, const ForwardParams& params, int64_t tile_q, int64_t tile_k,
              attn_plan* plan) {
  describe_arithmetic(params, plan);
  plan->tile_q = tile_q;
  plan->tile_k = tile_k;
  plan->num_splits = 1;
  plan->split_tiles = ceil_div(problem.seq_k, tile_k);
  plan->rescales = plan->split_tiles;
}

Refusal Fa1::plan(const Call& call, attn_plan* plan) {
  const attn_problem& problem = call.problem;
  if (Refusal refusal = check_device(call.env)) return refusal;
  if (Refusal refusal = check_pages(problem)) return refusal;
  const ForwardParams params = make_params(problem, call.tensors, call.env, 1);
  if constexpr (kHopper) {
    if (const int choice = hopper_choice(problem, call.env, params); choice >= 0) {
      const HopperSpec& spec = hopper_spec(choice);
      describe(problem, params, spec.tile_q(), spec.tile_k, plan);
      plan->key_order = ATTN_KEYS_DESCENDING;
      if (spec.scored) plan->score_rule = ATTN_SCORE_BY_FMA;
      plan->workspace_bytes = hopper_workspace(choice, problem, call.env);
      std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d wgmma%s", spec.tile_q(), spec.tile_k, spec.dim,
                    spec.scored ? " scored" : "");
      return {};
    }
  }
  if constexpr (kAmpere) {
    if (const int choice = ampere_choice(problem, call.env, params); choice >= 0) {
      const AmpereSpec& spec = ampere_spec(choice);
      describe(problem, params, spec.tile_q(), spec.tile_k, plan);
      plan->key_order = ATTN_KEYS_DESCENDING;
      if (spec.scored) plan->score_rule = ATTN_SCORE_BY_FMA;
      std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d mma%s", spec.tile_q(), spec.tile_k, spec.dim,
                    spec.scored ? " scored" : "");
      return {};
    }
  }
  size_t index;
  if (Refusal refusal = choose_shape(kFa1Shapes, problem, call.env, &index)) return refusal;
  const ShapeSpec& shape = kFa1Shapes[index];
  const int64_t q_tiles = ceil_div(problem.seq_q, shape.tile_q);
  if (product_within(q_tiles, problem.heads_q, problem.batch, kMaxBlocks) < 0)
    return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_q * query tiles is too large"};
  describe(problem, params, shape.tile_q, shape.tile_k, plan);
  std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d %s", shape.tile_q, shape.tile_k, shape.dim,
                copy_path(params).c_str());
  return {};
}

attn_status Fa1::run(const Call& call, const attn_plan&) {
  const auto& [problem, tensors, env] = call;
  if (Refusal refusal = check_device(env)) return refusal.status;
  const ForwardParams params = make_params(problem, tensors, env, 1);
  if constexpr (kHopper) {
    if (const int choice = hopper_choice(problem, env, params); choice >= 0)
      return hopper_run(choice, problem, tensors, params, &env);
  }
  if constexpr (kAmpere) {
    if (const int choice = ampere_choice(problem, env, params); choice >= 0)
      return ampere_run(choice, problem, params, &env);
  }
  size_t index;
  if (Refusal refusal = choose_shape(kFa1Shapes, problem, env, &index)) return refusal.status;
  if (problem.batch == 0 || problem.heads_q == 0 || problem.seq_q == 0) return ATTN_OK;
  return problem.dtype == ATTN_F16 ? fa1_launch<F16>(index, params, &env)
                                   : fa1_launch<BF16>(index, params, &env);
}

const attn_kernel kFa1 = plug_in<Fa1>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1 : nullptr; }
