#include "reference/operands.h"

#include <algorithm>
#include <cmath>

#include "reference/formats.h"
#include "reference/row_terms.h"
#include "reference/visibility.h"

namespace attnfuzz {
namespace {

using AllConst = Eigen::Map<const Eigen::ArrayXd>;

void resize_values(int64_t count, int64_t columns, Values* out) {
  out->count = count;
  out->columns = columns;
  out->data.assign(static_cast<size_t>(out->chunks() * count * kLanes), 0.0);
}

// What is not finite goes to Values::non_finite, and 0 takes its place.
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
    std::copy_n(row + first, std::min<int64_t>(kLanes, out->columns - first), to);
  }
}

}  // namespace

Purity purity_of(const double* values, int64_t count) {
  // x * 0 is 0 for every finite x, NaN for the others: one pass settles the common case.
  const AllConst all(values, count);
  if ((all * 0.0).sum() == 0) return Purity::kFinite;
  return all.isNaN().any() ? Purity::kNaN : Purity::kInfinite;
}

Operands load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                       int64_t first, int64_t last, double least) {
  Operands out;
  out.first = first;
  out.count = std::max<int64_t>(last - first, 0);
  out.dim_qk = problem.dim_qk;
  out.keys.assign(static_cast<size_t>((out.count + kLanes - 1) / kLanes * kLanes * out.dim_qk), 0.0);
  out.key_purity.resize(static_cast<size_t>(out.count));
  out.key_norm.resize(static_cast<size_t>(out.count));
  resize_values(out.count, problem.dim_v, &out.values);

  std::vector<double> row(static_cast<size_t>(std::max(problem.dim_qk, problem.dim_v)));
  for (int64_t j = 0; j < out.count; ++j) {
    decode_strided(problem.dtype, tensors.k.data, offset_of(tensors.k, b, g, first + j, 0), tensors.k.stride[3],
                   problem.dim_qk, row.data());
    double* panel = out.keys.data() + (j / kLanes) * out.dim_qk * kLanes + j % kLanes;
    for (int64_t t = 0; t < out.dim_qk; ++t) panel[t * kLanes] = row[static_cast<size_t>(t)];
    const Eigen::ArrayXd size = AllConst(row.data(), out.dim_qk).abs();
    const double norm = size.sum();
    out.least_key = std::min(out.least_key, (size == 0).select(out.least_key, size).minCoeff());
    const Purity purity = purity_of(row.data(), problem.dim_qk);
    out.key_norm[static_cast<size_t>(j)] = norm;
    out.key_purity[static_cast<size_t>(j)] = purity;
    out.pure_keys = out.pure_keys && purity == Purity::kFinite;

    decode_strided(problem.dtype, tensors.v.data, offset_of(tensors.v, b, g, first + j, 0), tensors.v.stride[3],
                   problem.dim_v, row.data());
    put_row(row.data(), j, &out.values);
  }
  if (least > 0) {
    out.aligned.resize(out.keys.size());
    std::ranges::transform(out.keys, out.aligned.begin(), [&](double k) { return counted(k, least); });
  }
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
  return out;
}

}  // namespace attnfuzz
