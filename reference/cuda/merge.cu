// The oracle of merges on a GPU, in double: merged_rows.h with two sides. A warp takes a row.
#include <cuda_runtime.h>

#include "kernels/primitives/launch.h"
#include "reference/cuda/block.cuh"
#include "reference/cuda/merge.h"
#include "reference/rows/row_terms.h"

namespace attnfuzz::cuda {
namespace {

using G = Group<Members::kWarp>;

// The sides of one row that saw a key, and what weighs them.
template <Format kFormat>
struct Sides {
  int n = 0;
  const Bits<kFormat>* o[2];
  double x[2];                // LSE
  double weight[2], error[2];  // w_s and w_s rho_s
  // A value that is not finite counts as 0 and is marked elsewhere.
  __device__ double value(int side, int c) const {
    const double v = number<kFormat>(o[side][c]);
    return is_finite(v) ? v : 0;
  }
};

// The numbers of a row that all its columns share.
struct MergedRow {
  MeanTerms terms;
  Stored stored;
  PlainShares shares;
  double l, lam, rho_w, denominator, lse_bound, grown, largest;
  bool informative;
};

__device__ void fill(const MergeInput& in, const RowsOutput& out, int64_t row, RowState state, Due due, double lse,
                     double bound) {
  for (int c = G::rank(); c < in.columns; c += G::size()) {
    const int64_t at = row * in.columns + c;
    out.o[at] = 0, out.o_bound[at] = bound, out.o_rule[at] = static_cast<uint8_t>(due);
  }
  if (G::rank() > 0) return;
  out.lse[row] = lse, out.lse_bound[row] = bound;
  out.state[row] = static_cast<uint8_t>(state);
}

// Computes weights and all that does not depend on a column.
template <Format kFormat>
__device__ MergedRow weigh(const MergeInput& in, Sides<kFormat>& sides) {
  const ErrorNumbers& model = in.model;
  const double n = sides.n, m = sides.n == 2 ? larger(sides.x[0], sides.x[1]) : sides.x[0];
  MergedRow row = {};
  row.terms = merged_terms(model, n);
  double e[2], largest_e = 0;
  for (int s = 0; s < sides.n; ++s) {
    e[s] = merge_allowance(model, sides.x[s], m, n);
    largest_e = larger(largest_e, e[s]);
    row.l += sides.weight[s] = exp(sides.x[s] - m);
  }
  row.lam = m + log(row.l);
  const double eps = row.terms.eps_weight;
  for (int s = 0; s < sides.n; ++s) {
    const double w = sides.weight[s] / row.l, rho = e[s] * (1 + e[s] * (0.5 + e[s] * (1.0 / 6 + e[s] / 23)));
    sides.weight[s] = w;
    sides.error[s] = largest_e <= 0.125 ? w * (rho + eps * (1 + rho))
                                        : larger(0, exp(sides.x[s] - row.lam + e[s]) * (1 + eps) - w);
    row.rho_w += sides.error[s];
  }
  for (int c = G::rank(); c < in.columns; c += G::size())
    for (int s = 0; s < sides.n; ++s) row.largest = larger(row.largest, fabs(sides.value(s, c)));
  row.largest = G::over(row.largest, Max());
  const double lost = lost_of(row.terms, row.rho_w, n, row.l);
  row.denominator = 1 - lost;
  row.stored = {merge_growth(row.terms, row.lam, largest_e, lost), 2 * row.terms.merged * kFlush * row.largest};
  row.informative = row.denominator > 0 && is_finite(row.rho_w) && is_finite(row.terms.product_gamma) &&
                    is_finite(row.terms.mma_gamma);
  row.lse_bound = lse_bound_of(row.terms, lost, m, row.l, row.lam);
  row.shares = shares_of_plain(row.terms, row.rho_w, row.denominator, n, row.l);
  row.grown = partial_growth(row.terms);
  return row;
}

// Computes the columns. False if one has no finite bound.
template <Format kFormat>
__device__ bool find_columns(const MergeInput& in, const RowsOutput& out, int64_t at, const Sides<kFormat>& sides,
                             const MergedRow& row) {
  const PlainShares& of = row.shares;
  bool unbounded = false;
  for (int c = G::rank(); c < in.columns; c += G::size()) {
    double o = 0, charged = 0, shifted = 0;
    for (int s = 0; s < sides.n; ++s) {
      const double v = sides.value(s, c);
      o = fma(sides.weight[s], v, o);
      charged += ((of.rounding + of.partial) * (sides.weight[s] + sides.error[s]) + of.tiny) * fabs(v);
    }
    for (int s = 0; s < sides.n; ++s) shifted = fma(sides.error[s], fabs(sides.value(s, c) - o), shifted);
    const double bound = (shifted + charged + of.of_o * fabs(o) + of.constant) / row.denominator;
    out.o[at + c] = o;
    out.o_bound[at + c] = row.stored(row.terms, fabs(o), bound);
    unbounded |= !is_finite(out.o_bound[at + c]);
  }
  return !G::any(unbounded);
}

// Writes the bounds of a row of which only the hull of its sides' values is known.
template <Format kFormat>
__device__ void hull(const MergeInput& in, const RowsOutput& out, int64_t at, const Sides<kFormat>& sides,
                     const MergedRow& row) {
  for (int c = G::rank(); c < in.columns; c += G::size()) {
    const double a = sides.value(0, c), b = sides.value(sides.n - 1, c);
    const double low = a < b ? a : b, high = larger(a, b);
    out.o[at + c] = low / 2 + high / 2;
    out.o_bound[at + c] =
        hull_bound(row.terms, row.stored, high / 2 - low / 2, larger(fabs(low), fabs(high)), sides.n);
  }
}

// Sets the columns' rules. True if a value of a side that saw a key lets a column be anything.
template <Format kFormat>
__device__ bool set_rules(const MergeInput& in, const RowsOutput& out, int64_t at, const Sides<kFormat>& sides,
                          const MergedRow& row) {
  const bool examine = may_overflow(row.terms, row.grown, sides.n, row.largest);
  bool any = false;
  for (int c = G::rank(); c < in.columns; c += G::size()) {
    double sum = 0, most = 0;
    bool nan = false, infinite = false;
    for (int s = 0; s < sides.n; ++s) {
      const double size = fabs(sides.value(s, c)), v = number<kFormat>(sides.o[s][c]);
      sum = fma(sides.weight[s], size, sum);
      most = larger(most, size);
      nan |= isnan(v);
      infinite |= isinf(v);
    }
    const bool overflow = examine && column_overflows(row.terms, row.grown, row.l, sum, most);
    any |= overflow || infinite;
    const Due due = nan ? Due::kMustBeNaN : overflow || infinite ? Due::kAnything : Due::kNumber;
    out.o_rule[at + c] = static_cast<uint8_t>(due);
    if (due != Due::kNumber) out.o_bound[at + c] = INFINITY;
  }
  return G::any(any);
}

template <Format kFormat>
__device__ void bound(const MergeInput& in, const RowsOutput& out, int64_t number, Sides<kFormat>& sides) {
  const int64_t at = number * in.columns;
  const MergedRow row = weigh(in, sides);
  const bool known = row.informative && find_columns(in, out, at, sides, row);
  if (!known) hull(in, out, at, sides, row);
  const bool any = set_rules(in, out, at, sides, row);
  if (G::rank() > 0) return;
  out.lse[number] = row.lam / in.model.log_unit;
  out.lse_bound[number] = known ? row.lse_bound / in.model.log_unit : INFINITY;
  out.state[number] = static_cast<uint8_t>(known ? RowState::kBounded : RowState::kUninformative) |
                      static_cast<uint8_t>(any ? kAnyColumn : 0);
}

template <Format kFormat>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const __grid_constant__ MergeInput in, const RowsOutput out) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= in.rows) return;
  const ErrorNumbers& model = in.model;
  Sides<kFormat> sides;
  bool nan = false, infinite = false;
  bool unseen[2] = {};
  for (int s = 0; s < 2; ++s) {
    const double lse = in.lse[s][row];
    unseen[s] = lse == -INFINITY || (lse == model.dead_lse && isinf(lse));
    if (unseen[s]) continue;
    sides.x[sides.n] = lse * model.log_unit;
    sides.o[sides.n++] = numbers_of<kFormat>(in.o[s]) + row * in.columns;
    nan |= isnan(lse);
    infinite |= isinf(lse);
  }
  if (sides.n == 0)
    fill(in, out, row, RowState::kDead, Due::kNumber, model.dead_lse, 0);
  else if (nan)
    fill(in, out, row, RowState::kNaN, Due::kMustBeNaN, 0, INFINITY);
  else if (infinite)
    fill(in, out, row, RowState::kUnconstrained, Due::kAnything, 0, INFINITY);
  else
    bound(in, out, row, sides);
  if (model.isolates_masked_nan) return;
  // A kernel may multiply O of a side that saw no key by 0, and 0 times NaN is NaN.
  for (int c = G::rank(); c < in.columns; c += G::size()) {
    for (int s = 0; s < 2; ++s) {
      const int64_t at = row * in.columns + c;
      if (!unseen[s] || isfinite(number<kFormat>(numbers_of<kFormat>(in.o[s])[at]))) continue;
      out.o_rule[at] = static_cast<uint8_t>(Due::kAnything);
      out.o_bound[at] = INFINITY;
    }
  }
}

}  // namespace

attn_status launch_merge(const MergeInput& in, const RowsOutput& out, const attn_env* env) {
  if (in.rows == 0) return ATTN_OK;
  const auto kernel = in.dtype == ATTN_F32    ? merge_kernel<Format::kF32>
                      : in.dtype == ATTN_BF16 ? merge_kernel<Format::kBf16>
                                              : merge_kernel<Format::kF16>;
  const auto blocks = static_cast<unsigned>((in.rows + kWarps - 1) / kWarps);
  return attn::launch(kernel, dim3(blocks), dim3(kThreads), 0, env, in, out);
}

}  // namespace attnfuzz::cuda
