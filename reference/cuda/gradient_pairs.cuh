// dA and P of each pair of a query and a key, with their errors: pairs_of() of gradients.cc. A warp takes 32
// keys of a few rows.
#pragma once

#include "reference/cuda/gradient_rows.cuh"
#include "reference/rows/row_terms.h"

namespace attnfuzz::cuda {

using gradients::Factor;

// q.k and dO.v of a pair, with the sums of moduli.
struct Products {
  double dot = 0, dot_size = 0, grad = 0, grad_size = 0;
};

// Adds up the products of one key with R rows from `first` on. Numbers that are not finite count as 0.
template <int R, Format kFormat>
__device__ inline void multiply(const void* rows, const void* keys, int64_t first, int count, int64_t slot,
                                int columns, int64_t stride, double least, double (&dot)[R],
                                double (&size)[R]) {
  Taint ignored = kPure;
  for (int c = 0; c < columns; ++c) {
    const double k = pure(number_at<kFormat>(keys, slot * stride + c), &ignored);
    const double k_size = counted(k, least);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (r >= count) continue;
      const double x = pure(number_at<kFormat>(rows, (first + r) * stride + c), &ignored);
      dot[r] = fma(x, k, dot[r]);
      size[r] = fma(counted(x, least), k_size, size[r]);
    }
  }
}
template <int R, Format kFormat>
__device__ inline void products_of(const GradientsInput& in, int64_t first, int count, int64_t slot,
                                   Products (&to)[R]) {
  const RowsInput& rows = in.rows;
  const double least = rows.model.least_factor;
  double dot[R] = {}, dot_size[R] = {}, grad[R] = {}, grad_size[R] = {};
  multiply<R, kFormat>(rows.q, rows.k, first, count, slot, rows.dim_qk, rows.stride_qk, least, dot, dot_size);
  multiply<R, kFormat>(in.dout, rows.v, first, count, slot, rows.dim_v, rows.stride_v, least, grad, grad_size);
#pragma unroll
  for (int r = 0; r < R; ++r) to[r] = {dot[r], dot_size[r], grad[r], grad_size[r]};
}

// inputs_of() of gradients.cc.
__device__ inline gradients::Pair pair_of(const GradientsInput& in, const GradientRow& row,
                                          const GradientKey& key, const Products& of, double bias) {
  gradients::Pair pair = {};
  pair.dot = of.dot, pair.dot_size = of.dot_size;
  pair.factors = row.q_norm + key.k_norm, pair.most_q = row.q_most;
  pair.bias = isfinite(bias) ? bias : 0;
  pair.lse = row.lse, pair.lse_error = row.lse_error;
  pair.grad = of.grad, pair.grad_size = of.grad_size;
  pair.grad_factors = row.dout_norm + key.v_norm;
  pair.delta = row.delta, pair.delta_size = row.delta_size, pair.delta_factors = row.delta_factors;
  pair.delta_error = row.delta_error;
  if (in.own_o != nullptr && row.dlse != 0) pair.delta_error += kU * (of.grad_size + row.delta_size);
  pair.apart = in.apart && in.dlse != nullptr;
  pair.dlse_apart = in.apart ? row.dlse : 0;
  pair.lse_apart = row.lse_apart, pair.lse_apart_error = row.lse_apart_error;
  return pair;
}

// Adds the error of D if it is a sum over the query's keys: add_errors_of_softmax() of gradients.cc. A warp
// takes a row.
template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(const __grid_constant__ GradientsInput in, const GradientsScratch to) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= in.rows.rows || to.rows[row].taint != kPure) return;
  GradientRow& of = to.rows[row];
  const RowTask& task = in.rows.tasks[row];
  const double relative = gamma(static_cast<double>(of.pairs + 1), kU);
  double error = 0;
  for (int j = task.first + G::rank(); j < task.last; j += 32) {
    const Seen seen = see(in.rows, task, j);
    if (!seen.is) continue;
    const int64_t slot = int64_t{task.group} * in.rows.keys + j;
    Products products[1];
    products_of<1, kFormat>(in, row, 1, slot, products);
    gradients::Pair pair = pair_of(in, of, to.keys[slot], products[0], seen.bias);
    pair.delta = pair.delta_size = pair.delta_factors = pair.delta_error = pair.dlse_apart = 0;
    pair.apart = false;
    const Factor factor = gradients::pair(in.terms, in.rows.model, pair);
    const double size = fabs(pair.grad);
    error += (factor.p + factor.p_error) * (size + factor.grad_error) * (1 + relative) - factor.p * size;
  }
  error = G::over(error, Sum());
  if (G::rank() > 0) return;
  if (of.delta_error < error) of.delta_error = error;  // std::max() of the host, which keeps a NaN of the first
  if (!isfinite(of.delta_error) || !isfinite(of.lse_error)) of.taint = kFree;
}

// Writes what a pair adds to the sums. True if dS is not a number.
__device__ inline bool put_pair(const GradientsInput& in, const GradientsScratch& to, int64_t row, int j,
                                const Products& of, double bias) {
  const GradientRow& query = to.rows[row];
  const GradientKey& key = to.keys[int64_t{in.rows.tasks[row].group} * in.rows.keys + j];
  const Taint scores =
      worse(worse(query.q_taint, key.k_taint), worse(gradients::taint_of(bias), query.lse_taint));
  const Factor factor = gradients::pair(in.terms, in.rows.model, pair_of(in, query, key, of, bias));
  const Taint p_taint = scores == kPure && !factor.p_bounded ? kFree : scores;
  Taint taint = worse(worse(p_taint, query.taint), key.v_taint);
  if (taint == kPure && !factor.a_bounded) taint = kFree;
  const int64_t pair = row * in.rows.keys + j;
  to.a[pair] = taint == kPure ? factor.a : 0;
  to.a_error[pair] = taint == kPure ? factor.a_error : 0;
  to.p[pair] = p_taint == kPure ? factor.p : 0;
  to.p_error[pair] = p_taint == kPure ? factor.p_error : 0;
  if (in.biased) to.s[pair] = factor.s, to.s_error[pair] = factor.s_error;
  to.facts[pair] = static_cast<uint8_t>(taint | p_taint << kTaintOfP | kSeen);
  return taint != kPure;
}

inline constexpr int kRowsAWarp = 4;

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    pairs_kernel(const __grid_constant__ GradientsInput in, const GradientsScratch to) {
  const auto group = static_cast<int>(blockIdx.y);
  const int chunks = (in.rows.keys + 31) / 32;
  const int64_t job = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t first = in.first_row[group] + job / chunks * kRowsAWarp;
  if (first >= in.first_row[group + 1]) return;
  const int count = static_cast<int>(min(int64_t{kRowsAWarp}, in.first_row[group + 1] - first));
  const int j = static_cast<int>(job % chunks) * 32 + G::rank(), length = in.rows.lengths[group];
  Seen seen[kRowsAWarp] = {};
  bool any = false;
  for (int r = 0; r < count; ++r) {
    seen[r] = see(in.rows, in.rows.tasks[first + r], j);
    any |= seen[r].is;
  }
  Products products[kRowsAWarp];
  if (any) products_of<kRowsAWarp, kFormat>(in, first, count, int64_t{group} * in.rows.keys + j, products);
  bool impure = false;
  for (int r = 0; r < count && j < length; ++r) {
    if (seen[r].is)
      impure |= put_pair(in, to, first + r, j, products[r], seen[r].bias);
    else
      to.facts[(first + r) * in.rows.keys + j] = 0;
  }
  // The sum of the row's weights may then be NaN, and 0 divided by it is NaN, even for hidden keys.
  if (impure && in.own_o != nullptr) atomicOr(&to.groups[group], kAllOfDk | kAllOfDv);
}

}  // namespace attnfuzz::cuda
