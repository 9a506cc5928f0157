// The kernel fa1_backward_fused: its domain, its plan and its launches. If kGroups, it has the walk on wgmma, too.
// README.md is the manual.
#pragma once

#include <array>

#include "kernels/fa1_backward/walks.h"
#include "kernels/fa1_backward_fused/hopper/hopper.h"
#include "kernels/identity.h"
#include "kernels/primitives/warpgroup.h"

namespace attn::backward {

// The kernel takes 16-bit inputs of up to 128 columns in rows of 16-byte chunks, and no biases, masks and caps.
inline constexpr attn_domain kChunks = [] {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.dim_qk.least = domain.dim_qk.multiple = 8;
  domain.dim_qk.most = 128;
  domain.dim_v = domain.dim_qk;
  domain.align_bytes = 16;
  return domain;
}();

inline constexpr int32_t kMma = 2;  // the second of kVariants

// True if the walk on wgmma takes the problem; the walk on mma must take it.
template <bool kGroups>
bool takes_groups(const Call& call) {
  if constexpr (kGroups) {
    return call.env.variant != kMma && groups_take(call);
  } else {
    return false;
  }
}

template <bool kGroups>
struct FusedBackward {
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
    const bool groups = takes_groups<kGroups>(call);
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
    if constexpr (kGroups) {
      if (takes_groups<kGroups>(call)) return finish_walks(call, p, launch_groups(call, p));
    }
    return finish_walks(call, p, launch_walks<true>(call, p));
  }
};

}  // namespace attn::backward
