#include "reference/rows/operands.h"

#include <algorithm>
#include <cmath>

#include "reference/call/sequences.h"
#include "reference/numbers/formats.h"
#include "reference/rows/row_loops.h"
#include "reference/rows/row_terms.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

using AllConst = Eigen::Map<const Eigen::ArrayXd>;

void resize_values(int64_t count, int64_t columns, Values* out) {
  out->count = count;
  out->columns = columns;
  out->largest = 0;
  out->non_finite.clear();
  out->data.resize(static_cast<size_t>(out->chunks() * count * kLanes));
}

// Moves values that are not finite to Values::non_finite, and puts 0 in their place.
void take_non_finite(double* row, int64_t j, Values* out) {
  for (int64_t c = 0; c < out->columns; ++c) {
    if (std::isfinite(row[c])) continue;
    out->non_finite.push_back({j, c, std::isnan(row[c])});
    row[c] = 0;
  }
}

void put_row(double* row, int64_t j, Values* out) {
  if (purity_of(row, out->columns) != Purity::kFinite) take_non_finite(row, j, out);
  out->largest = std::max(out->largest, AllConst(row, out->columns).abs().maxCoeff());
  for (int64_t first = 0; first < out->columns; first += kLanes) {
    double* to = out->data.data() + (first / kLanes * out->count + j) * kLanes;
    const int64_t columns = std::min<int64_t>(kLanes, out->columns - first);
    if (columns == kLanes) {
      std::copy_n(row + first, kLanes, to);  // copied without a call
    } else {
      std::copy_n(row + first, columns, to);
      std::fill(to + columns, to + kLanes, 0.0);
    }
  }
}

void put_sizes(Values* out) {
  out->sizes.clear();
  if (!(out->largest > 0)) return;
  out->size_scale = std::ldexp(1.0, 29 - std::ilogb(out->largest));
  out->sizes.resize(out->data.size());
  const double least = row_loops().sizes(out->data.data(), static_cast<int64_t>(out->data.size()),
                                         out->size_scale, out->sizes.data());
  if (!(least >= 0x1p-30)) out->sizes.clear();
}

// Puts at most sixteen keys into their panel.
void put_keys(const double* rows, int64_t count, int64_t dim, double* panel) {
  if (count == kLanes) {
    for (int64_t t = 0; t < dim; ++t)
      for (int64_t lane = 0; lane < kLanes; ++lane) panel[t * kLanes + lane] = rows[lane * dim + t];
    return;
  }
  std::fill_n(panel, dim * kLanes, 0.0);
  for (int64_t t = 0; t < dim; ++t)
    for (int64_t lane = 0; lane < count; ++lane) panel[t * kLanes + lane] = rows[lane * dim + t];
}

}  // namespace

Purity purity_of(const double* values, int64_t count) {
  // x * 0 is 0 for every finite x and NaN for others. One pass settles the usual case.
  const AllConst all(values, count);
  if ((all * 0.0).sum() == 0) return Purity::kFinite;
  return all.isNaN().any() ? Purity::kNaN : Purity::kInfinite;
}

void load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                   int64_t first, int64_t last, double least, Operands* to) {
  Operands& out = *to;
  out.first = first;
  out.count = std::max<int64_t>(last - first, 0);
  out.dim_qk = problem.dim_qk;
  out.least_key = Operands{}.least_key;
  out.pure_keys = true;
  out.keys.resize(static_cast<size_t>((out.count + kLanes - 1) / kLanes * kLanes * out.dim_qk));
  out.key_purity.resize(static_cast<size_t>(out.count));
  out.key_norm.resize(static_cast<size_t>(out.count));
  resize_values(out.count, problem.dim_v, &out.values);

  std::vector<double> rows(static_cast<size_t>(kLanes * out.dim_qk)), row(static_cast<size_t>(problem.dim_v));
  const Sequences sequences(problem, tensors);
  for (int64_t j = 0; j < out.count; ++j) {
    const StoredRow from = sequences.key_row(b, first + j);
    double* key = rows.data() + j % kLanes * out.dim_qk;
    decode_strided(problem.dtype, tensors.k.data, offset_of(tensors.k, from.entry, g, from.row, 0),
                   tensors.k.stride[3], problem.dim_qk, key);
    const auto size = AllConst(key, out.dim_qk).abs();
    out.least_key = std::min(out.least_key, (size == 0).select(out.least_key, size).minCoeff());
    const Purity purity = purity_of(key, problem.dim_qk);
    out.key_norm[static_cast<size_t>(j)] = size.sum();
    out.key_purity[static_cast<size_t>(j)] = purity;
    out.pure_keys = out.pure_keys && purity == Purity::kFinite;
    if (j % kLanes == kLanes - 1 || j == out.count - 1)
      put_keys(rows.data(), j % kLanes + 1, out.dim_qk, out.keys.data() + j / kLanes * kLanes * out.dim_qk);

    decode_strided(problem.dtype, tensors.v.data, offset_of(tensors.v, from.entry, g, from.row, 0),
                   tensors.v.stride[3], problem.dim_v, row.data());
    put_row(row.data(), j, &out.values);
  }
  put_sizes(&out.values);
  out.aligned.clear();
  if (least > 0) {
    out.aligned.resize(out.keys.size());
    std::ranges::transform(out.keys, out.aligned.begin(), [&](double k) { return counted(k, least); });
  }
}

Operands load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                       int64_t first, int64_t last, double least) {
  Operands out;
  load_operands(problem, tensors, b, g, first, last, least, &out);
  return out;
}

Values make_values(const double* rows, int64_t count, int64_t columns, int64_t stride) {
  Values out;
  resize_values(count, columns, &out);
  std::vector<double> row(static_cast<size_t>(columns));
  for (int64_t j = 0; j < count; ++j) {
    std::copy_n(rows + j * stride, columns, row.data());
    put_row(row.data(), j, &out);
  }
  put_sizes(&out);
  return out;
}

}  // namespace attnfuzz
