// The kernel nsa: attention over listed blocks (ATTN_FEATURE_SELECTED). README.md is the manual.
#include <type_traits>

#include "kernels/forward/all_formats.h"
#include "kernels/forward/checks.h"
#include "kernels/identity.h"
#include "kernels/nsa/heads.h"
#include "kernels/nsa/make_params.h"
#include "kernels/primitives/launch.h"

namespace attn::nsa {
namespace {

// The most query heads of a block of threads.
constexpr int64_t kMostHeads = 64;

constexpr int32_t kPlain = 1;  // the variant; 0 and 2: tensor cores, if they can take the problem

// The kernel for a problem, and what its launch needs. One of `plain` and `mma` is set.
struct Way {
  const char* path;
  int threads;
  size_t bytes;    // of shared memory
  int64_t heads;   // query heads of a block of threads; 0: all of a group
  void (*plain)(SelectedParams);
  void (*mma)(HeadsParams);
};

template <class T>
Way plain_way(int64_t select) {
  return {"a warp a head", kThreads, Shared::bytes(select), 0, selected_kernel<T>, nullptr};
}
template <class Shape>
Way heads_way(const char* path, int64_t select) {
  return {path, Shape::kThreads, Shape::bytes(select), Shape::kHeads, nullptr, heads_kernel<Shape>};
}
template <class T, int D>
Way heads_way(const char* path, const attn_problem& p) {
  const int64_t group = p.heads_q / std::max<int64_t>(p.heads_kv, 1);
  return group <= 16   ? heads_way<HeadsShape<T, D, 1>>(path, p.select)
         : group <= 32 ? heads_way<HeadsShape<T, D, 2>>(path, p.select)
                       : heads_way<HeadsShape<T, D, kMostHeads / 16>>(path, p.select);
}

template <class T>
Way way_of(const Call& call) {
  const attn_problem& p = call.problem;
  if constexpr (!std::is_same_v<T, float>) {
    if (call.env.variant != kPlain && call.env.compute_capability >= 80) {
      const int64_t columns = std::max(p.dim_qk, p.dim_v);
      const Way way = columns <= 64    ? heads_way<T, 64>("mma d64", p)
                      : columns <= 128 ? heads_way<T, 128>("mma d128", p)
                                       : heads_way<T, 256>("mma d256", p);
      if (call.env.shared_memory_limit >= static_cast<int64_t>(way.bytes)) return way;
    }
  }
  return plain_way<T>(p.select);
}
Way way_of(const Call& call) {
  const int32_t dtype = call.problem.dtype;
  return dtype == ATTN_F32 ? way_of<float>(call) : dtype == ATTN_F16 ? way_of<F16>(call) : way_of<BF16>(call);
}

// Blocks of threads for the heads of a group, and all blocks; negative if they do not fit a grid.
int64_t tiles_of(const attn_problem& p, const Way& way) {
  return way.heads == 0 ? 1 : ceil_div(p.heads_q / std::max<int64_t>(p.heads_kv, 1), way.heads);
}
int64_t blocks_of(const attn_problem& p, const Way& way) {
  const int64_t lists = product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks);
  return lists < 0 ? -1 : product_within(lists, tiles_of(p, way), 1, kMaxBlocks);
}

HeadsParams make_heads_params(const Call& call, const Way& way) {
  const attn_problem& a = call.problem;
  HeadsParams p = {};
  p.of = make_params(call);
  p.tiles = tiles_of(a, way);
  const Rows q = rows_of_queries(a), k = rows_of_keys(a);
  p.async_q = copies_by_16_bytes(p.of.q, {q.entries, a.heads_q, q.count}, p.of.dim_qk);
  p.async_k = copies_by_16_bytes(p.of.k, {k.entries, a.heads_kv, k.count}, p.of.dim_qk);
  p.async_v = copies_by_16_bytes(p.of.v, {k.entries, a.heads_kv, k.count}, p.of.dim_v);
  return p;
}

struct Selected {
  static constexpr const char* kName = "nsa";
  static constexpr const char* kDescription = "native sparse attention: attention over listed blocks";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr std::array kVariants = {"plain", "mma"};
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_SELECTED | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    const Way way = way_of(call);
    if (blocks_of(p, way) < 0)
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_kv * seq_q is too large"};
    if (p.select > kMostSelect) return {ATTN_UNSUPPORTED, "lists of more than 4096 indices"};
    if (call.env.shared_memory_limit < static_cast<int64_t>(way.bytes))
      return {ATTN_UNSUPPORTED, "needs " + std::to_string(way.bytes) + " bytes of shared memory a block"};
    *plan = plain_plan(way.path, kTile, p.seq_k);
    plan->tile_q = 1;
    if (way.mma != nullptr) {
      plan->accumulator = ATTN_ACC_TENSOR;
      plan->p_format = ATTN_FORMAT_OF_INPUT;
    }
    plan->p_order = ATTN_P_UNNORMALISED;
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->log_class = ATTN_LOG_LG2_APPROX;
    plan->rcp_class = ATTN_RCP_APPROX;
    plan->tanh_class = ATTN_TANH_TANHF;
    plan->rescales = ceil_div(p.select * span_of(p), kTile);
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = 1;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const Way way = way_of(call);
    const int64_t blocks = blocks_of(p, way);
    if (blocks == 0 || p.heads_q == 0 || rows_of_queries(p).count == 0) return ATTN_OK;
    const dim3 grid(static_cast<unsigned>(blocks)), threads(static_cast<unsigned>(way.threads));
    return way.mma != nullptr
               ? launch(way.mma, grid, threads, way.bytes, &call.env, make_heads_params(call, way))
               : launch(way.plain, grid, threads, way.bytes, &call.env, make_params(call));
  }
};

const attn_kernel kSelected = plug_in<Selected>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kSelected : nullptr; }
