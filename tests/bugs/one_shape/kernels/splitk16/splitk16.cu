// Split-K as the first team wrote it, in plain CUDA: one thread for each query row,
// tiles of 64 queries, 64 keys and 64 columns, static shared arrays, and partial
// results of O in 16 bits. It is here because two known bugs of that team patch it:
//
//   splitk16-double-count.patch  partial O is left unnormalised, and the reduction
//                                multiplies it by the local sum all the same
//   splitk16-overflow.patch      partial O and the reduction both leave the local sum
//                                out: right, until 16 bits overflow
//
// Unpatched it is right: partial O is normalised by its own sum, so it is no larger
// than the values, and every property holds. It takes fp16 with key lengths, causal
// masks and windows, and refuses everything else.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>

#include "kernels/forward/checks.h"
#include "kernels/identity.h"
#include "kernels/primitives/launch.h"

namespace attn {
namespace {

constexpr int kTile = 64, kMaxDim = 64;
constexpr int64_t kMostSplits = 65535;  // the largest y of a grid

// Dense arrays with the axes (split, batch, head, query).
struct Partials {
  __half* o;  // dim_v columns
  float* max;
  float* sum;
  int64_t splits, split_tiles, rows;
};

__global__ void __launch_bounds__(kTile) partial_kernel(ForwardParams p, Partials partials, int64_t q_tiles) {
  __shared__ __half k_tile[kTile][kMaxDim];
  __shared__ __half v_tile[kTile][kMaxDim];
  const int64_t head = blockIdx.x / q_tiles % p.heads_q, batch = blockIdx.x / q_tiles / p.heads_q;
  const int64_t row = blockIdx.x % q_tiles * kTile + threadIdx.x;
  const bool active = row < p.seq_q;
  const int64_t length = key_length(p, batch);
  const KeyRange keys = visible_range(p, length, row);

  float q[kMaxDim], acc[kMaxDim];
  const __half* q_row = p.q.at<const __half>(batch, head, active ? row : 0);
  for (int d = 0; d < kMaxDim; ++d) {
    q[d] = active && d < p.dim_qk ? __half2float(q_row[d * p.q.stride[3]]) : 0.0f;
    acc[d] = 0.0f;
  }
  float m = -INFINITY, l = 0.0f;
  const int64_t first = blockIdx.y * partials.split_tiles * kTile, past = first + partials.split_tiles * kTile;
  for (int64_t begin = first; begin < past && begin < length; begin += kTile) {
    const int64_t key = begin + threadIdx.x;
    const __half* k_row = p.k.at<const __half>(batch, head / p.group, key);
    const __half* v_row = p.v.at<const __half>(batch, head / p.group, key);
    for (int d = 0; d < kMaxDim; ++d) {
      const bool there = key < length;
      k_tile[threadIdx.x][d] = there && d < p.dim_qk ? k_row[d * p.k.stride[3]] : __float2half(0.0f);
      v_tile[threadIdx.x][d] = there && d < p.dim_v ? v_row[d * p.v.stride[3]] : __float2half(0.0f);
    }
    __syncthreads();

    float s[kTile];
    float m_new = m;
    for (int j = 0; j < kTile; ++j) {
      float dot = 0.0f;
      for (int d = 0; d < kMaxDim; ++d) dot = fmaf(q[d], __half2float(k_tile[j][d]), dot);
      const bool visible = active && begin + j >= keys.begin && begin + j < keys.end;
      s[j] = visible ? dot * p.scale : -INFINITY;
      m_new = fmaxf(m_new, s[j]);
    }
    const float reference = m_new == -INFINITY ? 0.0f : m_new;
    const float alpha = expf(m - reference);
    l *= alpha;
    for (int d = 0; d < kMaxDim; ++d) acc[d] *= alpha;
    for (int j = 0; j < kTile; ++j) {
      const float weight = expf(s[j] - reference);
      l += weight;
      for (int d = 0; d < kMaxDim; ++d) acc[d] = fmaf(weight, __half2float(v_tile[j][d]), acc[d]);
    }
    m = m_new;
    __syncthreads();
  }

  if (!active) return;
  const int64_t at = blockIdx.y * partials.rows + (batch * p.heads_q + head) * p.seq_q + row;
  partials.max[at] = m;
  partials.sum[at] = l;
  for (int d = 0; d < p.dim_v; ++d) {
    partials.o[at * p.dim_v + d] = __float2half(l == 0.0f ? 0.0f : acc[d] / l);
  }
}

__global__ void __launch_bounds__(kTile) reduce_kernel(ForwardParams p, Partials partials) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  if (row >= partials.rows) return;
  float m = -INFINITY;
  for (int64_t s = 0; s < partials.splits; ++s) m = fmaxf(m, partials.max[s * partials.rows + row]);
  const float reference = m == -INFINITY ? 0.0f : m;
  float sum = 0.0f, acc[kMaxDim] = {0.0f};
  for (int64_t s = 0; s < partials.splits; ++s) {
    const int64_t at = s * partials.rows + row;
    const float weight = expf(partials.max[at] - reference);
    const float local_sum = partials.sum[at];
    sum += weight * local_sum;
    for (int d = 0; d < p.dim_v; ++d) {
      acc[d] = fmaf(weight * local_sum, __half2float(partials.o[at * p.dim_v + d]), acc[d]);
    }
  }
  const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
  const bool dead = sum == 0.0f;  // NaN is not 0
  __half* o_row = p.o.at<__half>(b, h, i);
  for (int d = 0; d < p.dim_v; ++d) o_row[d * p.o.stride[3]] = __float2half(dead ? 0.0f : acc[d] / sum);
  if (p.lse.data != nullptr) *p.lse.at<float>(b, h, i) = dead ? -INFINITY : reference + logf(sum);
}

struct Decision {
  int64_t q_tiles, splits, split_tiles, rows;
  uint64_t o_bytes, workspace;
};

Refusal decide(const attn_problem& p, Decision* d) {
  if (p.dtype != ATTN_F16) return {ATTN_UNSUPPORTED, "fp16 only"};
  if (p.dim_qk > kMaxDim || p.dim_v > kMaxDim) return {ATTN_UNSUPPORTED, "head dimensions up to 64 only"};
  if (p.has_mask || p.bias_dtype != ATTN_NONE || p.softcap != 0) {
    return {ATTN_UNSUPPORTED, "neither mask nor bias nor softcap"};
  }
  d->q_tiles = ceil_div(p.seq_q, kTile);
  const int64_t kv_tiles = std::max<int64_t>(ceil_div(p.seq_k, kTile), 1);
  d->splits = p.num_splits > 0 ? p.num_splits : std::min<int64_t>(kv_tiles, 4);
  d->split_tiles = ceil_div(kv_tiles, d->splits);
  d->rows = product_within(p.batch, p.heads_q, p.seq_q, kMaxBlocks);
  const int64_t elements = product_within(d->rows, d->splits, p.dim_v, int64_t{1} << 40);
  if (d->splits > kMostSplits || d->rows < 0 || elements < 0 ||
      product_within(p.batch, p.heads_q, d->q_tiles, kMaxBlocks) < 0) {
    return {ATTN_UNSUPPORTED, "too many splits or rows for one launch"};
  }
  d->o_bytes = ceil_div(elements * static_cast<int64_t>(sizeof(__half)), 16) * 16;
  d->workspace = d->o_bytes + 2 * sizeof(float) * static_cast<uint64_t>(d->rows * d->splits);
  return {};
}

struct SplitK16 {
  static constexpr const char* kName = "splitk16";
  static constexpr const char* kDescription =
      "Split-K in plain CUDA, one thread a query row, partial O in 16 bits";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan);
  static attn_status run(const Call& call, const attn_plan&);
};

Refusal SplitK16::plan(const Call& call, attn_plan* plan) {
  Decision d;
  if (Refusal refusal = decide(call.problem, &d)) return refusal;
  *plan = plain_plan("one thread a row, 16-bit partials", kTile, call.problem.seq_k);
  plan->num_splits = d.splits;
  plan->split_tiles = plan->rescales = d.split_tiles;
  plan->merges = d.splits > 1 ? d.splits : 0;
  plan->exp_class = ATTN_EXP_EXPF;
  plan->partial_format = ATTN_FORMAT_OF_INPUT;
  plan->workspace_bytes = d.workspace;
  plan->workspace_align = 16;
  return {};
}

attn_status SplitK16::run(const Call& call, const attn_plan&) {
  const auto& [problem, tensors, env] = call;
  Decision d;
  if (Refusal refusal = decide(problem, &d)) return refusal.status;
  if (d.rows == 0) return ATTN_OK;
  if (tensors.workspace == nullptr || tensors.workspace_bytes < d.workspace) return ATTN_INVALID;
  const ForwardParams params = make_params(problem, tensors, env, 1);
  std::byte* workspace = static_cast<std::byte*>(tensors.workspace);
  float* max = reinterpret_cast<float*>(workspace + d.o_bytes);
  const Partials partials = {
      reinterpret_cast<__half*>(workspace), max, max + d.rows * d.splits, d.splits, d.split_tiles, d.rows};
  const dim3 grid(static_cast<unsigned>(d.q_tiles * problem.heads_q * problem.batch),
                  static_cast<unsigned>(d.splits));
  const attn_status status = launch(partial_kernel, grid, dim3(kTile), 0, &env, params, partials, d.q_tiles);
  if (status != ATTN_OK) return status;
  return launch(reduce_kernel, dim3(static_cast<unsigned>(ceil_div(d.rows, kTile))), dim3(kTile), 0, &env,
                params, partials);
}

const attn_kernel kSplitk16 = plug_in<SplitK16>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kSplitk16 : nullptr; }
