// fa1 as it runs on sm_90a, in one small instantiation of each path, for the CPU
// executor. A problem that the sm_90a path does not take goes to the other path or is
// refused (fast_paths.h).
#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/fa1/fa1_bf16.cu"
#include "kernels/fa1/fa1_f16.cu"
#include "kernels/fa1/hopper/hopper.cu"
#include "kernels/fa1/launch.h"
#include "kernels/fast_paths.h"
#include "kernels/forward/checks.h"
#include "kernels/identity.h"

namespace attn {
namespace {

// The choice for a checked problem, on whatever device; -1: refused.
int choose(const attn_problem& problem, const attn_env& env, const ForwardParams& params) {
  attn_env hopper = env;
  hopper.compute_capability = 90;
  hopper.variant = 0;
  const int choice = hopper_choice(problem, hopper, params);
  if (choice < 0 || std::max(problem.dim_qk, problem.dim_v) > hopper_spec(choice).dim) return -1;
  return choice;
}

struct Fa1h {
  static constexpr const char* kName = "fa1h";
  static constexpr const char* kDescription = "fa1 as on sm_90a, on the CPU executor";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr uint64_t kFeatures = ATTN_FEATURE_ALIBI | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
  static constexpr std::array kVariants = {"small"};
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& problem = call.problem;
    const ForwardParams params = make_params(problem, call.tensors, call.env, 1);
    describe_arithmetic(params, plan);
    if (const int choice = choose(problem, call.env, params); choice >= 0) {
      const HopperSpec& spec = hopper_spec(choice);
      std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d wgmma%s", spec.tile_q(), spec.tile_k, spec.dim,
                    spec.scored ? " scored" : "");
      plan->tile_q = spec.tile_q();
      plan->tile_k = spec.tile_k;
      plan->key_order = ATTN_KEYS_DESCENDING;
      if (spec.scored) plan->score_rule = ATTN_SCORE_BY_FMA;
      plan->workspace_bytes = hopper_workspace(choice, problem, call.env);
    } else if (!kBothPaths) {
      return {ATTN_UNSUPPORTED, "the path for sm_90a does not take this problem"};
    } else {
      size_t index;
      if (Refusal refusal = choose_shape(kFa1Shapes, problem, call.env, &index)) return refusal;
      const ShapeSpec& shape = kFa1Shapes[index];
      if (product_within(ceil_div(problem.seq_q, shape.tile_q), problem.heads_q, problem.batch, kMaxBlocks) < 0)
        return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_q * query tiles is too large"};
      std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d %s", shape.tile_q, shape.tile_k, shape.dim,
                    copy_path(params).c_str());
      plan->tile_q = shape.tile_q;
      plan->tile_k = shape.tile_k;
    }
    plan->num_splits = 1;
    plan->split_tiles = ceil_div(problem.seq_k, plan->tile_k);
    plan->rescales = plan->split_tiles;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const auto& [problem, tensors, env] = call;
    const ForwardParams params = make_params(problem, tensors, env, 1);
    if (const int choice = choose(problem, env, params); choice >= 0)
      return hopper_run(choice, problem, tensors, params, &env);
    if (!kBothPaths) return ATTN_UNSUPPORTED;
    size_t index;
    if (Refusal refusal = choose_shape(kFa1Shapes, problem, env, &index)) return refusal.status;
    if (problem.batch == 0 || problem.heads_q == 0 || problem.seq_q == 0) return ATTN_OK;
    return problem.dtype == ATTN_F16 ? fa1_launch<F16>(index, params, &env)
                                     : fa1_launch<BF16>(index, params, &env);
  }
};

const attn_kernel kFa1h = plug_in<Fa1h>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1h : nullptr; }
