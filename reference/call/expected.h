// One output as it must be, element by element: what the oracle says of O, of the
// LSE, and of whatever other operations write.
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

// What an input is where it is read.
enum class Purity : uint8_t { kFinite, kInfinite, kNaN };

enum class RowState : uint8_t {
  kDead,           // sees no key: O = 0, and LSE = -inf or what the plan has there, exactly
  kBounded,        // within the bounds
  kUninformative,  // the scores are too uncertain: O in the hull of its values, LSE any number
  kUnconstrained,  // an intermediate may overflow, or an input is infinite: any value passes
  kNaN,            // sees a NaN in q, k or bias: O and LSE must be NaN
  kSkipped         // not sampled: nothing is known
};

// What one output must hold: element row * columns + column, dense.
struct Expected {
  TensorId tensor = TensorId::kO;
  int64_t columns = 0;
  std::vector<double> value;
  std::vector<double> bound;  // the interval value +- bound; infinite: any number passes
  // What is due without any rounding, where `value` is not that but what the kernel's known
  // roundings make of it (rounded_p.h); empty: `value` everywhere.
  std::vector<double> exact = {};
  std::vector<uint8_t> rule;  // Due: a number is due, NaN is due, or anything passes
  double overflow = 0;        // where |value| + bound reaches this an infinity of that sign passes too
  bool logarithm = false;  // -inf is a value as others are, and where `overflow` is 0 no infinity passes for it
  double unit = 1;         // of a logarithm: the natural one is this times as much

  // |got - value| / bound: at most 1 passes. 0 for what passes exactly, infinite
  // where no ratio can tell: NaN where a number is due, a number where NaN is due,
  // an infinity that is no overflow, anything else where the bound is 0.
  double ratio(int64_t row, int64_t column, float got) const;
  // Whether an infinity may stand for a number that is due.
  bool overflows() const { return !logarithm || overflow > 0; }
  // How far a right result may lie from what is exactly due: what relations between results go by.
  double allowance(int64_t at) const {
    const auto i = static_cast<size_t>(at);
    return exact.empty() ? bound[i] : bound[i] + std::abs(value[i] - exact[i]);
  }
  // Of the whole row the same is due.
  void fill_row(int64_t row, Due due, double value, double bound);
};

}  // namespace attnfuzz
