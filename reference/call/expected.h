// The expectation for one output, element by element: O, the LSE, or an output of another
// operation, as the oracle computes it.
//
//   const Expected& o = reference[TensorId::kO];
//   if (o.ratio(row, column, got) > 1) fail(...);
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/call/tensor_spec.h"
#include "reference/numbers/ratio.h"

namespace attnfuzz {

// The kind of an input's value.
enum class Purity : uint8_t { kFinite, kInfinite, kNaN };

enum class RowState : uint8_t {
  kDead,           // the row sees no key: O = 0; LSE = -inf or the plan's lse_dead, exactly
  kBounded,        // the row has bounds
  kUninformative,  // the scores are too uncertain: O in the hull of its values, LSE any number
  kUnconstrained,  // an intermediate may overflow, or an input is infinite: any value passes
  kNaN,            // the row sees a NaN in q, k or bias: O and LSE must be NaN
  kSkipped,        // not sampled: nothing is known
  kAbsent          // the batch entry has fewer queries: there is no such row
};

// The requirements on one output. Element: row * columns + column, dense.
struct Expected {
  TensorId tensor = TensorId::kO;
  int64_t columns = 0;
  std::vector<double> value;
  std::vector<double> bound;  // the interval value +- bound; infinite: any number passes
  // The exact results, if `value` predicts the kernel's roundings instead (rounded_p.h). Empty: `value` is
  // exact everywhere.
  std::vector<double> exact = {};
  std::vector<int64_t> integer =
      {};                     // for an output of integers, the exact results; `value` and `bound` are empty
  std::vector<uint8_t> rule;  // Due: a number is due, NaN is due, or anything passes
  double overflow = 0;        // if |value| + bound reaches this, an infinity of that sign passes, too
  bool logarithm = false;     // -inf may be due; if `overflow` is 0, no other infinity passes
  double unit = 1;            // of a logarithm: natural logarithm = `unit` * value

  // |got - value| / bound; at most 1 passes. 0 for an exact result. Infinite if no ratio applies: NaN instead
  // of a number, a number instead of NaN, an infinity that is no overflow, or any error where the bound is 0.
  double ratio(int64_t row, int64_t column, float got) const;
  // True if an infinity may replace a number.
  bool overflows() const { return !logarithm || overflow > 0; }
  // The largest distance of a right result from the exact result. Relations between results use this.
  double allowance(int64_t at) const {
    const auto i = static_cast<size_t>(at);
    return exact.empty() ? bound[i] : bound[i] + std::abs(value[i] - exact[i]);
  }
  // Sets the same expectation for a whole row.
  void fill_row(int64_t row, Due due, double value, double bound);
};

// An output of numbers of which nothing is known yet: each of `elements` may be anything.
Expected unset_output(TensorId tensor, int64_t columns, int64_t elements, double overflow);

}  // namespace attnfuzz
