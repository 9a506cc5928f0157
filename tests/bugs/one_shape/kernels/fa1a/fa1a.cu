// Only the mma path of fa1, in one small instantiation, for the CPU executor. A problem that it
// does not take is refused, so that a known bug's case is reduced on this path.
#include <array>
#include <cstdio>

#include "kernels/fa1/ampere/ampere.cu"
#include "kernels/fa1/ampere/launch.h"
#include "kernels/forward/checks.h"
#include "kernels/identity.h"

ATTN_AMPERE_SHAPE(Ampere64);
ATTN_AMPERE_SHAPE(Ampere64Scored);

namespace attn {
namespace {

// At most 100 heads: this path's bugs need no more, and the executor takes half a minute for 65536.
constexpr attn_domain few_heads_multiples_of_8() {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.batch.most = domain.heads_q.most = 100;
  domain.dim_qk.least = domain.dim_qk.multiple = 8;
  domain.dim_qk.most = Ampere64::kSpec.dim;
  domain.dim_v = domain.dim_qk;
  return domain;
}
constexpr attn_domain kTaken = few_heads_multiples_of_8();

// The choice for a checked problem, in any variant; -1: refused.
int choose(const attn_problem& problem, const attn_env& env, const ForwardParams& params) {
  attn_env any = env;
  any.variant = 0;
  return ampere_choice(problem, any, params);
}

struct Fa1a {
  static constexpr const char* kName = "fa1a";
  static constexpr const char* kDescription = "the mma path of fa1 alone, on the CPU executor";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr uint64_t kFeatures = ATTN_FEATURE_ALIBI;
  static constexpr std::array kVariants = {"small"};
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kTaken;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const ForwardParams params = make_params(call.problem, call.tensors, call.env, 1);
    const int choice = choose(call.problem, call.env, params);
    if (choice < 0) return {ATTN_UNSUPPORTED, "the mma path does not take this problem"};
    describe_arithmetic(params, plan);
    const AmpereSpec& spec = ampere_spec(choice);
    std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d mma%s", spec.tile_q(), spec.tile_k, spec.dim,
                  spec.scored ? " scored" : "");
    plan->tile_q = spec.tile_q();
    plan->tile_k = spec.tile_k;
    plan->key_order = ATTN_KEYS_DESCENDING;
    if (spec.scored) plan->score_rule = ATTN_SCORE_BY_FMA;
    plan->num_splits = 1;
    plan->split_tiles = ceil_div(call.problem.seq_k, plan->tile_k);
    plan->rescales = plan->split_tiles;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const ForwardParams params = make_params(call.problem, call.tensors, call.env, 1);
    const int choice = choose(call.problem, call.env, params);
    return choice < 0 ? ATTN_UNSUPPORTED : ampere_run(choice, call.problem, params, &call.env);
  }
};

const attn_kernel kFa1a = plug_in<Fa1a>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kFa1a : nullptr; }
