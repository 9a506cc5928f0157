#include "reference/rows/operands.h"

#include <algorithm>
#include <cmath>

#include "reference/call/sequences.h"
#include "reference/numbers/formats.h"
#include "reference/rows/kv_scales.h"
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

Factors factors_of(const ErrorNumbers& model) {
  return {model.least_factor, model.key_overflow, model.narrow ? model.v_overflow : 0, model.narrow && model.kv_rule != ATTN_KV_DEQUANTISED};
}

Purity purity_of(const double* values, int64_t count) {
  // x * 0 is 0 for every finite x and NaN for others. One pass settles the usual case.
  const AllConst all(values, count);
  if ((all * 0.0).sum() == 0) return Purity::kFinite;
  return all.isNaN().any() ? Purity::kNaN : Purity::kInfinite;
}

void load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                   int64_t first, int64_t last, const Factors& factors, Operands* to) {
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
  const bool narrow = problem.kv_dtype != 0;
  const int32_t dtype = narrow ? problem.kv_dtype : problem.dtype;
  const auto read = [&](const attn_tensor& from, const attn_tensor& scales, const StoredRow& at, int64_t j,
                        int64_t columns, double* to) {
    decode_strided(dtype, from.data, offset_of(from, at.entry, g, at.row, 0), from.stride[3], columns, to);
    if (!narrow) return 1.0;
    const double scale = kv_scale_of(scales, b, g, j);
    // If a scale is not allowed (infinite here), every value may be anything, even 0 times it.
    for (int64_t c = 0; c < columns; ++c) to[c] = std::isinf(scale) && !std::isnan(to[c]) ? scale : to[c] * scale;
    return scale;
  };
  out.key_unit.clear();
  if (factors.units_of_codes) out.key_unit.resize(static_cast<size_t>(out.count), 1);
  for (int64_t j = 0; j < out.count; ++j) {
    const StoredRow from = sequences.key_row(b, first + j);
    double* key = rows.data() + j % kLanes * out.dim_qk;
    const double scale = read(tensors.k, tensors.k_scale, from, first + j, problem.dim_qk, key);
    const auto size = AllConst(key, out.dim_qk).abs();
    // A kernel that rounds k first has the unit 1. The larger of the two units is looser.
    const double unit = !factors.units_of_codes || std::isinf(scale) ? 1
                        : factors.key_overflow > 0                   ? std::max(scale, 1.0)
                                                                     : scale;
    if (factors.units_of_codes) out.key_unit[static_cast<size_t>(j)] = unit;
    out.least_key = std::min(out.least_key, (size == 0).select(out.least_key, size / unit).minCoeff());
    Purity purity = purity_of(key, problem.dim_qk);
    if (factors.key_overflow > 0 && purity == Purity::kFinite && size.maxCoeff() >= factors.key_overflow)
      purity = Purity::kInfinite;
    out.key_norm[static_cast<size_t>(j)] = size.sum();
    out.key_purity[static_cast<size_t>(j)] = purity;
    out.pure_keys = out.pure_keys && purity == Purity::kFinite;
    if (j % kLanes == kLanes - 1 || j == out.count - 1)
      put_keys(rows.data(), j % kLanes + 1, out.dim_qk, out.keys.data() + j / kLanes * kLanes * out.dim_qk);

    read(tensors.v, tensors.v_scale, from, first + j, problem.dim_v, row.data());
    for (double& v : row) {
      if (factors.value_overflow > 0 && std::abs(v) >= factors.value_overflow) v = std::copysign(kInfinity, v);
    }
    put_row(row.data(), j, &out.values);
  }
  put_sizes(&out.values);
  out.aligned.clear();
  if (factors.least > 0) {
    out.aligned.resize(out.keys.size());
    std::ranges::transform(out.keys, out.aligned.begin(), [&](double k) { return counted(k, factors.least); });
    for (size_t n = 0; n < out.keys.size() && !out.key_unit.empty(); ++n) {
      const size_t j = n / static_cast<size_t>(kLanes * out.dim_qk) * kLanes + n % kLanes;
      if (j < out.key_unit.size()) out.aligned[n] = counted(out.keys[n], factors.least * out.key_unit[j]);
    }
  }
}

Operands load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                       int64_t first, int64_t last, double least) {
  Operands out;
  load_operands(problem, tensors, b, g, first, last, Factors{.least = least}, &out);
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
