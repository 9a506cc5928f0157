// The keys and values of one (batch, KV head), in double and in an order that the row loops can stream.
// They are converted once and read by every row of the group.
//
// Keys lie in panels of kLanes keys, values in panels of kLanes columns, padded with zeros. K and
// V of 8 bits include their scales (kv_scales.h).
//
//   key j, element t     keys[((j / kLanes) * dim_qk + t) * kLanes + j % kLanes]
//   value j, column c    values[((c / kLanes) * count + j) * kLanes + c % kLanes]
//
// Here j is counted from `first`. A value that is not finite is replaced by 0 and listed separately,
// because 0 * NaN must not reach a row that does not see the key. A key that is not finite is marked.
//
//   const Operands operands = load_operands(problem, tensors, b, kv_head, 0, length);
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "reference/call/expected.h"
#include "reference/model/error_model.h"

namespace attnfuzz {

inline constexpr int kLanes = 16;
using Lanes = Eigen::Array<double, kLanes, 1>;
using LanesAt = Eigen::Map<const Lanes, Eigen::Aligned32>;
using Buffer = std::vector<double, Eigen::aligned_allocator<double>>;

// kNaN if any element is NaN, else kInfinite if any is infinite.
Purity purity_of(const double* values, int64_t count);

struct NonFinite {
  int64_t key;  // counted from Operands::first
  int64_t column;
  bool nan;
};

struct Values {
  int64_t count = 0;  // keys
  int64_t columns = 0;
  Buffer data;
  double largest = 0;  // max |v| of the finite values
  // |v| in the same order, times `size_scale`: a power of two that moves the largest into [2^29, 2^30), and
  // keeps the least that is not 0 at 2^-30 or above. Empty if the range is too wide.
  std::vector<float, Eigen::aligned_allocator<float>> sizes;
  double size_scale = 1;
  std::vector<NonFinite> non_finite;  // ascending by key
  const double* panel(int64_t chunk) const { return data.data() + chunk * count * kLanes; }
  const float* size_panel(int64_t chunk) const { return sizes.data() + chunk * count * kLanes; }
  int64_t chunks() const { return (columns + kLanes - 1) / kLanes; }
};

struct Operands {
  int64_t first = 0;  // the key of index 0
  int64_t count = 0;
  int64_t dim_qk = 0;
  Buffer keys;
  Buffer aligned;  // |k_t| in the same order, with non-zero values raised to `least`; empty if `least` is 0
  std::vector<Purity> key_purity;
  std::vector<double> key_norm;  // sum_t |k_t|, for a scale folded into Q
  double least_key = 0x1p1023;   // the least |k_t| that is not 0, in the key's unit
  std::vector<double> key_unit;  // of each key: the unit of `least`; empty: 1 for all
  bool pure_keys = true;
  Values values;
};

// The numbers of the error model that load_operands() needs.
struct Factors {
  double least = 0;            // least_factor
  double key_overflow = 0;     // a larger key counts as infinite; 0: none does
  double value_overflow = 0;   // a larger 8-bit value does, too, even for rows that do not see it
  bool units_of_codes = false;  // a kernel may multiply codes; `least` is then in units of a key's scale
};
Factors factors_of(const ErrorNumbers& model);

// Keys first..last-1 of batch b, kv head g. `least`: ErrorModel::least_factor.
Operands load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                       int64_t first, int64_t last, double least = 0);

// The same in existing memory.
void load_operands(const attn_problem& problem, const attn_tensors& tensors, int64_t b, int64_t g,
                   int64_t first, int64_t last, const Factors& factors, Operands* to);

// `rows` holds `count` rows of `columns` numbers, `stride` apart.
Values make_values(const double* rows, int64_t count, int64_t columns, int64_t stride);

}  // namespace attnfuzz
