// The fast way of the backward pass, as plan() and run() see it: which problems it takes, its plan, and its
// launches. fa1_backward computes dQ in a second walk; fa1_backward_fused adds it up during the walk for dK and
// dV.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/fa1_backward/dsink.h"
#include "kernels/fa1_backward/make_params.h"
#include "kernels/fa1_backward/walk_params.h"
#include "kernels/primitives/launch.h"

namespace attn::backward {

// Launches the walks of a shape. Instantiated in a .cu for each number of columns (walk_launch.h).
template <class T, class Shape, bool kFused>
attn_status launch_walks(const WalkParams& p, const attn_env* env);
// Bytes of shared memory of a block, the maximum over the kernels.
template <class Shape, bool kFused>
size_t walk_shared();

// True if rows consist of whole 16-byte chunks at multiples of 16 bytes.
inline bool whole_chunks(const Strided& t, int64_t dim) {
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && dim % 8 == 0 && t.stride[3] == 1 &&
         t.stride[0] % 8 == 0 && t.stride[1] % 8 == 0 && t.stride[2] % 8 == 0;
}

// True if sigma, the factor from q.k to exponents of two, is 0 or a normal number.
inline bool whole_sigma(float scale) {
  const float sigma = scale * kLog2e;
  return sigma == 0 || std::isnormal(sigma);
}

// Rows of a head in the workspace: seq_q, rounded up to whole tiles of every walk.
inline int64_t walk_rows(const attn_problem& p) { return ceil_div(p.seq_q, kWorkRows) * kWorkRows; }
inline int64_t walk_columns(const attn_problem& p) { return std::max(p.dim_qk, p.dim_v) <= 64 ? 64 : 128; }

// The shape that a problem gets: the first that has room for its columns and fits the device.
enum class WalkShape { k64, k128, k128Small, kNone };
template <bool kFused>
WalkShape walk_shape(const Call& call) {
  const auto fits = [&](size_t shared) { return static_cast<int64_t>(shared) <= call.env.shared_memory_limit; };
  if (walk_columns(call.problem) == 64)
    return fits(walk_shared<Grad64, kFused>()) ? WalkShape::k64 : WalkShape::kNone;
  if (fits(walk_shared<Grad128, kFused>())) return WalkShape::k128;
  if constexpr (kFused) {
    if (fits(walk_shared<Grad128Small, true>())) return WalkShape::k128Small;
  }
  return WalkShape::kNone;
}

// Why the fast way does not take the problem; nullptr if it does. It takes 16-bit inputs of up to 128 columns,
// Q, K and V in whole chunks, scores without bias, mask and cap, keys that stand for themselves, and sequences
// below 2^28.
template <bool kFused>
const char* walks_refuse(const Call& call) {
  const attn_problem& p = call.problem;
  if (call.env.compute_capability < 80) return "needs compute capability 8.0 or later (mma.m16n8k16)";
  if (p.dtype == ATTN_F32 || std::max(p.dim_qk, p.dim_v) > 128)
    return "takes 16-bit inputs of up to 128 columns";
  if (p.bias_dtype != ATTN_NONE || p.has_mask != 0 || p.softcap != 0)
    return "takes no bias, no mask and no soft cap";
  if (p.key_step > 1 || p.key_offset > 0) return "takes no keys that stand for blocks";
  if (!whole_sigma(p.scale)) return "takes no scale whose product with log2 e is not a normal number";
  if (p.seq_q >= kLongest || p.seq_k >= kLongest) return "takes sequences below 2^28";
  const attn_tensors t = strided(p, call.tensors);
  if (!whole_chunks(t.q, p.dim_qk) || !whole_chunks(t.k, p.dim_qk) || !whole_chunks(t.v, p.dim_v))
    return "takes Q, K and V in rows of whole 16-byte chunks";
  if (walk_shape<kFused>(call) == WalkShape::kNone) return "needs more shared memory a block";
  if (product_within(p.batch, p.heads_q, walk_rows(p), kMaxBlocks) < 0 ||
      product_within(p.batch, p.heads_kv, p.seq_k, kMaxBlocks) < 0)
    return "takes less than 2^31 rows";
  return nullptr;
}

// Bytes of the copy of dO, a multiple of 16. 0 if the rows of dO are whole chunks, because then no copy is
// made.
inline int64_t copy_bytes(const attn_problem& p, const attn_tensors& tensors) {
  if (whole_chunks(strided(p, tensors).dout, p.dim_v)) return 0;
  const attn::Rows rows = rows_of_queries(p);
  return rows.entries * p.heads_q * rows.count * p.dim_v * 2;
}

inline constexpr uint64_t kTakenBytes = 16;

// Bytes of the workspace: LSE and D of each row, the sums of dQ and the number of taken items if `sums`, and
// the copy of dO.
inline uint64_t walk_bytes(const Call& call, bool sums) {
  const attn_problem& p = call.problem;
  const int64_t rows = p.batch * p.heads_q * walk_rows(p);
  return static_cast<uint64_t>(rows) * sizeof(float) * static_cast<uint64_t>(2 + (sums ? walk_columns(p) : 0)) +
         static_cast<uint64_t>(copy_bytes(p, call.tensors)) + (sums ? kTakenBytes : 0);
}

// Fills in a plan for tiles of `keys` keys and `queries` queries. Its path begins with `name`. The caller sets
// workspace_bytes, and in the fused kernel dq_adds and deterministic.
inline void describe_walks(const Call& call, const char* name, int keys, int queries, attn_plan* plan) {
  const attn_problem& p = call.problem;
  char path[sizeof plan->path];
  std::snprintf(path, sizeof path, "%s %dx%d d%d", name, keys, queries, static_cast<int>(walk_columns(p)));
  *plan = plain_plan(path, keys, p.seq_k);
  plan->tile_q = queries;
  plan->accumulator = ATTN_ACC_TENSOR;
  plan->exp_class = ATTN_EXP_EX2_APPROX;
  plan->scale_mode = ATTN_SCALE_FUSED;
  plan->p_format = plan->ds_format = ATTN_FORMAT_OF_INPUT;
  plan->p_order = ATTN_P_NORMALISED;
  plan->head_format = ATTN_FORMAT_F32;
  plan->dq_adds = plan->dkv_adds = 1;
  plan->flush_to_zero = 1;
  plan->workspace_align = 512;
}

inline WalkParams walk_params(const Call& call, const Params& of, bool sums) {
  const attn_problem& a = call.problem;
  WalkParams p = {};
  p.of = of;
  p.sigma = a.scale * kLog2e;
  p.left = static_cast<int32_t>(std::min<int64_t>(of.forward.left, 2 * int64_t{kLongest}));
  p.right = static_cast<int32_t>(std::min<int64_t>(of.forward.right, 2 * int64_t{kLongest}));
  p.rows = static_cast<int32_t>(walk_rows(a));
  const int64_t rows = a.batch * a.heads_q * walk_rows(a);
  float* const workspace = static_cast<float*>(call.tensors.workspace);
  // The sums come first, because they need the workspace's alignment.
  p.sums = sums ? workspace : nullptr;
  p.lse2 = workspace + (sums ? rows * walk_columns(a) : 0);
  p.delta = p.lse2 + rows;
  float* const end = p.delta + rows;
  p.taken = sums ? reinterpret_cast<uint32_t*>(end) : nullptr;
  p.of.delta = p.delta;
  p.given_dout = of.dout;
  p.whole = {whole_chunks(of.forward.o, a.dim_v), whole_chunks(of.dout, a.dim_v), whole_chunks(of.dq, a.dim_qk),
             whole_chunks(of.dk, a.dim_qk), whole_chunks(of.dv, a.dim_v)};
  if (!p.whole.dout) {
    const attn::Rows all = rows_of_queries(a);
    p.of.dout = attn_tensor{end + (sums ? kTakenBytes / sizeof(float) : 0),
                            {a.heads_q * all.count * a.dim_v, all.count * a.dim_v, a.dim_v, 1}};
    if (all.entries == 1) p.of.dout.stride[0] = 0;
  }
  p.of.delta_rows = p.rows;
  return p;
}

template <bool kFused>
attn_status launch_walks(const Call& call, const WalkParams& p) {
  const auto walks = [&]<class T>() -> attn_status {
    const WalkShape shape = walk_shape<kFused>(call);
    if (shape == WalkShape::k64) return launch_walks<T, Grad64, kFused>(p, &call.env);
    if constexpr (kFused) {
      if (shape == WalkShape::k128Small) return launch_walks<T, Grad128Small, true>(p, &call.env);
    }
    return launch_walks<T, Grad128, kFused>(p, &call.env);
  };
  return call.problem.dtype == ATTN_F16 ? walks.template operator()<F16>() : walks.template operator()<BF16>();
}

// Launches dsink if the call asks for it. `status`: the result of the walks, returned as it is if they failed.
inline attn_status finish_walks(const Call& call, const WalkParams& p, attn_status status) {
  const attn_problem& a = call.problem;
  if (status != ATTN_OK || (a.features & ATTN_FEATURE_DSINK) == 0) return status;
  return launch(dsink_kernel, dim3(static_cast<unsigned>(ceil_div(a.heads_q, kWarps))), dim3(kThreads), 0,
                &call.env, p.of);
}

}  // namespace attn::backward
