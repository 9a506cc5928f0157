// The sm_90a path of FA-1 as a kernel of its own, in one small instantiation, for the
// CPU executor: what that path does not take is refused.
#include <array>
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

struct Fa1h {
  static constexpr const char* kName = "fa1h";
  static constexpr const char* kDescription = "the sm_90a path of fa1 alone, on the CPU executor";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr std::array kVariants = {"small"};
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& problem = call.problem;
    const ForwardParams params = make_params(problem, call.tensors, call.env, 1);
    if (choose(problem, call.env, params) < 0)
      return {ATTN_UNSUPPORTED, "the path for sm_90a does not take this problem"};
    const HopperSpec& spec = Hopper64::kSpec;
    describe_arithmetic(params, plan);
    std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d wgmma", spec.tile_q(), spec.tile_k, spec.dim);
    plan->tile_q = spec.tile_q();
    plan->tile_k = spec.tile_k;
    plan->num_splits = 1;
    plan->split_tiles = ceil_div(problem.seq_k, spec.tile_k);
    plan->rescales = plan->split_tiles;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const ForwardParams params = make_params(call.problem, call.tensors, call.env, 1);
    const int choice = choose(call.problem, call.env, params);
    return choice < 0 ? ATTN_UNSUPPORTED : hopper_run(choice, call.problem, params, &call.env);
  }
};

const attn_kernel kFa1h = plug_in<Fa1h>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1h : nullptr; }
