// The kernel nsa_backward: gradients of attention over listed blocks (ATTN_FEATURE_SELECTED_BACKWARD).
// README.md is the manual. This file has the plan and the launches. kGroups: with the variant wgmma.
#pragma once

#include <array>
#include <optional>
#include <type_traits>

#include "kernels/forward/all_formats.h"
#include "kernels/identity.h"
#include "kernels/nsa/make_params.h"
#include "kernels/nsa_backward/gradients.h"
#include "kernels/nsa_backward/hopper/hopper.h"
#include "kernels/nsa_backward/make_mma_params.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/warpgroup.h"

namespace attn::nsa {

// The kernels of variant `plain`, of one format.
struct Kernels {
  void (*delta)(GradientParams);
  void (*dq)(GradientParams);
  void (*dkdv)(GradientParams);
};
template <class T>
constexpr Kernels kernels_for() {
  return {delta_kernel<T>, dq_kernel<T>, dkdv_kernel<T>};
}

// The kernels of variants `mma` and `wgmma`, and bytes of shared memory of a block.
struct MmaKernels {
  const char* path;
  size_t dq_bytes, dkdv_bytes;
  void (*prepare)(MmaParams, int64_t, int64_t);
  void (*dq)(MmaParams);
  void (*dkdv)(MmaParams);
  void (*sum)(MmaParams);
};
template <class T, int D>
MmaKernels mma_kernels(const char* path, int64_t select) {
  return {path,
          QueryShape<T, D>::bytes(select),
          KeyShape<T, D>::bytes(),
          prepare_kernel<T>,
          query_kernel<QueryShape<T, D>>,
          key_kernel<KeyShape<T, D>>,
          sum_kernel<T>};
}
template <class T>
MmaKernels mma_kernels(const attn_problem& p) {
  return std::max(p.dim_qk, p.dim_v) <= 64 ? mma_kernels<T, 64>("mma d64", p.select)
                                           : mma_kernels<T, 128>("mma d128", p.select);
}

inline constexpr int32_t kPlain = 1, kMma = 2;  // variants. 0 is the last one that can take the problem

// The kernels for a problem; nullopt: those of variant `plain`.
template <bool kGroups>
std::optional<MmaKernels> mma_kernels(const Call& call) {
  const attn_problem& p = call.problem;
  if (call.env.variant == kPlain || call.env.compute_capability < 80) return {};
  if (p.dtype == ATTN_F32 || std::max(p.dim_qk, p.dim_v) > kMmaColumns || !MmaCounts(p).fit(p)) return {};
  MmaKernels kernels = p.dtype == ATTN_F16 ? mma_kernels<F16>(p) : mma_kernels<BF16>(p);
  if (static_cast<int64_t>(std::max(kernels.dq_bytes, kernels.dkdv_bytes)) > call.env.shared_memory_limit)
    return {};
  if constexpr (kGroups) {
    const KeyGroups groups = key_groups(p);
    if (call.env.variant != kMma && p.softcap == 0 && call.env.compute_capability == 90 &&
        static_cast<int64_t>(groups.bytes) <= call.env.shared_memory_limit && device_has_warpgroups()) {
      kernels.path = std::max(p.dim_qk, p.dim_v) <= 64 ? "wgmma d64" : "wgmma d128";
      kernels.dkdv = groups.kernel, kernels.dkdv_bytes = groups.bytes;
    }
  }
  return kernels;
}

// The names of the variants.
template <bool kGroups>
constexpr auto variants() {
  if constexpr (kGroups)
    return std::array{"plain", "mma", "wgmma"};
  else
    return std::array{"plain", "mma"};
}

template <class Params, class... More>
attn_status start(const Call& call, void (*kernel)(Params, More...), int64_t blocks, int threads, size_t bytes,
                  const Params& p, std::type_identity_t<More>... more) {
  if (blocks == 0) return ATTN_OK;
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), bytes,
                &call.env, p, more...);
}

// Changes a plan of `plain` into that of the variants on tensor cores.
inline void describe_mma(const attn_problem& p, attn_plan* plan) {
  const MmaCounts counts(p);
  plan->accumulator = ATTN_ACC_TENSOR;
  plan->p_format = plan->ds_format = ATTN_FORMAT_OF_INPUT;
  plan->p_order = ATTN_P_NORMALISED;
  plan->dq_adds = kWarps;
  plan->dkv_adds = counts.parts;
  // With a causal mask a tile may have hidden pairs. They are 0 in a product, and 0 times NaN is NaN.
  plan->isolates_masked_nan = p.causal == 0;
  plan->workspace_bytes = counts.bytes();
}

inline attn_status run_mma(const Call& call, const MmaKernels& kernels) {
  const attn_problem& a = call.problem;
  const MmaCounts counts(a);
  MmaParams p = make_mma_params(call, counts);
  const bool keys = rows_of_keys(a).count > 0 && counts.keys > 0;
  attn_status status = ATTN_OK;
  if (rows_of_queries(a).count > 0 || keys) {
    status =
        start(call, kernels.prepare, counts.prepare_blocks, kThreads, 0, p, counts.bits, counts.row_blocks);
    if (status == ATTN_OK) status = start(call, kernels.dq, counts.dq_blocks, kThreads, kernels.dq_bytes, p);
  }
  if (status != ATTN_OK || !keys) return status;
  const int64_t listed = ceil_div(counts.marked_blocks, kWarps);
  status = start(call, count_kernel, listed, kThreads, 0, p, counts.heads);
  if (status == ATTN_OK) status = start(call, scan_kernel, counts.heads, 32, 0, p);
  if (status == ATTN_OK) status = start(call, fill_kernel, listed, kThreads, 0, p, counts.heads);
  for (; status == ATTN_OK && p.first_head < counts.heads; p.first_head += counts.heads_at_once) {
    const int64_t heads = std::min(counts.heads_at_once, counts.heads - p.first_head);
    status = start(call, kernels.dkdv, heads * counts.dkdv_blocks, kThreads, kernels.dkdv_bytes, p);
    if (status == ATTN_OK) status = start(call, kernels.sum, heads * counts.sum_blocks, kThreads, 0, p);
  }
  return status;
}

inline attn_status run_plain(const Call& call) {
  const attn_problem& a = call.problem;
  const Counts counts(a);
  const GradientParams p = make_gradient_params(call);
  const Kernels kernels = a.dtype == ATTN_F32   ? kernels_for<float>()
                          : a.dtype == ATTN_F16 ? kernels_for<F16>()
                                                : kernels_for<BF16>();
  // Without rows cu_q and cu_k may be NULL. With keys and no queries, dq_kernel writes empty lists for the
  // others.
  const int64_t keys = rows_of_keys(a).count > 0 ? counts.keys : 0,
                rows = rows_of_queries(a).count > 0 || keys > 0 ? counts.rows : 0;
  attn_status status = start(call, kernels.delta, ceil_div(rows, kWarps), kThreads, 0, p);
  if (status == ATTN_OK && rows > 0)
    status = start(call, kernels.dq, counts.lists, kThreads, GradientShared::bytes(a.select), p);
  if (status == ATTN_OK && keys > 0) status = start(call, invert_kernel, counts.heads, 32, 0, p);
  if (status == ATTN_OK)
    status = start(call, kernels.dkdv, ceil_div(keys, kWarps), kThreads, GradientShared::bytes(0), p);
  return status;
}

template <bool kGroups>
struct SelectedBackward {
  static constexpr const char* kName = "nsa_backward";
  static constexpr const char* kDescription = "the gradients of attention over listed blocks, in a fixed order";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr std::array kVariants = variants<kGroups>();
  static constexpr uint64_t kFeatures = ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NO_FORWARD |
                                        ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 |
                                        ATTN_FEATURE_DLSE;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    const Counts counts(p);
    if (!counts.fit())
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks or indices: the problem is too large"};
    if (p.select > kMostSelect) return {ATTN_UNSUPPORTED, "lists of more than 4096 indices"};
    const std::optional<MmaKernels> mma = mma_kernels<kGroups>(call);
    const size_t bytes = mma ? 0 : GradientShared::bytes(p.select);
    if (call.env.shared_memory_limit < static_cast<int64_t>(bytes))
      return {ATTN_UNSUPPORTED, "needs " + std::to_string(bytes) + " bytes of shared memory a block"};
    *plan = plain_plan(mma ? mma->path : "a warp a row", kTile, p.seq_k);
    plan->tile_q = 1;
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->tanh_class = ATTN_TANH_TANHF;
    plan->ds_format = plan->head_format = ATTN_FORMAT_F32;
    plan->dq_adds = plan->dkv_adds = 1;
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = 1;
    plan->workspace_bytes = counts.bytes();
    plan->workspace_align = sizeof(float);
    if (mma) describe_mma(p, plan);
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const std::optional<MmaKernels> mma = mma_kernels<kGroups>(call);
    return mma ? run_mma(call, *mma) : run_plain(call);
  }
};

}  // namespace attn::nsa
