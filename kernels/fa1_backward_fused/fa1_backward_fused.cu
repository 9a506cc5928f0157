// The backward pass of attention in one walk. Each block computes dK and dV of its keys, and adds the part of
// dQ that comes from these keys to sums in global memory (../fa1_backward/walks.md). README.md is the manual.
#include <array>

#include "kernels/fa1_backward/walks.h"
#include "kernels/fa1_backward_fused/hopper/hopper.h"
#include "kernels/forward/paths.h"
#include "kernels/identity.h"
#include "kernels/primitives/warpgroup.h"

namespace attn::backward {
namespace {

// The kernel takes 16-bit inputs of up to 128 columns in rows of 16-byte chunks, and no biases, masks and caps.
constexpr attn_domain kChunks = [] {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.dim_qk.least = domain.dim_qk.multiple = 8;
  domain.dim_qk.most = 128;
  domain.dim_v = domain.dim_qk;
  domain.align_bytes = 16;
  return domain;
}();

constexpr int32_t kMma = 2;  // the second of kVariants

// True if the walk on wgmma takes the problem; the walk on mma must take it.
bool takes_groups(const Call& call) {
  if constexpr (kSm90a) {
    return call.env.variant != kMma && groups_take(call);
  } else {
    return false;
  }
}

struct Fused {
  static constexpr const char* kName = "fa1_backward_fused";
  static constexpr const char* kDescription = "the gradients of attention in one walk, dQ by atomic additions";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kChunks;
  static constexpr std::array kVariants = {"wgmma", "mma"};
  static constexpr uint64_t kFeatures = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_DLSE |
                                        ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_RAGGED |
                                        ATTN_FEATURE_INDEX32;

  static Refusal plan(const Call& call, attn_plan* plan) {
    if (const char* reason = walks_refuse<true>(call)) return {ATTN_UNSUPPORTED, reason};
    const bool groups = takes_groups(call);
    const bool small = !groups && walk_shape<true>(call) == WalkShape::k128Small;
    static_assert(Grad64::kKeys.keys() == Grad128::kKeys.keys());
    const int keys = (small ? Grad128Small::kKeys : Grad128::kKeys).keys();
    // On wgmma, tiles of 64 columns have 128 queries.
    const int queries = KeySpec::kQueries * (groups && walk_columns(call.problem) == 64 ? 2 : 1);
    describe_walks(call, groups ? "fused wgmma" : "fused cp.async", keys, queries, plan);
    plan->workspace_bytes = walk_bytes(call, true);
    // A sum starts at 0, and each tile of keys adds to it once.
    plan->dq_adds = std::max<int64_t>(1, plan->split_tiles);
    plan->deterministic = 0;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    if (walks_refuse<true>(call) != nullptr) return ATTN_UNSUPPORTED;
    const WalkParams p = walk_params(call, make_params(call), true);
    if constexpr (kSm90a) {
      if (takes_groups(call)) return finish_walks(call, p, launch_groups(call, p));
    }
    return finish_walks(call, p, launch_walks<true>(call, p));
  }
};

const attn_kernel kKernel = plug_in<Fused>();

}  // namespace
}  // namespace attn::backward

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::backward::kKernel : nullptr; }
