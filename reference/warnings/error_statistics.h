// Statistics of a result. If all its elements are within their bounds, is the result nevertheless unlikely for
// random rounding? The answer is a warning, never a verdict.
//
// A bound holds for the worst case that a plan allows. If many errors add up, a right kernel uses little of its
// bound, because errors have both signs. Let R be the bound of an element without the rounding of O itself.
// A right kernel errs by about
//
//   T = min(1, a + b s) R                     s: the row's scatter (scatter.h)
//
// where a covers errors that are alike in all keys, and b s errors with random signs. For each element,
//
//   x = max(0, |error| - half an ulp)         the least that was wrong before O was rounded
//   r(v)                                      v rounded to O's format: the result without other errors
//
// and four numbers, each of which is below 1 in all but 1 in 10,000 cases of right kernels:
//
//   size = sqrt(sum x^2 / sum T^2)            of all elements
//   row  = the largest size of one row, with a larger b
//   bias = |sum of |got| - r(|v|)| / (sum of r(|v| +- T) - r(|v|) + 4 sqrt(sum (r(|v| + R) - r(|v| - R))^2)):
//          a shift toward or away from 0, relative to the most that T and random signs explain
//   lse  = |error| / (min(1, a' + b' s') bound), the largest
//
// a and b are measured (docs/checks.md, Statistical warnings). A value that is rounded once too often, or
// truncated instead of rounded, exceeds 1 although it is within its bound.
//
// Nothing is reported if the plan declares sources of error that may be alike in all keys (docs/checks.md lists
// them), or if the reference has no scatter.
//
//   const ErrorStatistics statistics = error_statistics(reference, problem.dtype, plan, o, lse);
//   if (statistics.unlikely()) mark_beyond(reference, problem.dtype, TensorId::kO, o);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/call/reference.h"

namespace attnfuzz {

struct ErrorStatistics {
  double size = 0, row = 0, bias = 0, lse = 0;  // 0 if nothing can be computed
  bool toward_zero = false;                     // of `bias`
  int64_t worst_row = -1, worst_lse = -1;       // the rows of `row` and `lse`
  bool unlikely() const { return size > 1 || row > 1 || bias > 1 || lse > 1; }
};

// O has this dtype, LSE is fp32, both in the order of Reference; either may be empty.
ErrorStatistics error_statistics(const Reference& reference, int32_t dtype, const attn_plan& plan,
                                 std::span<const float> o, std::span<const float> lse);

// Marks the elements of O or of the LSE whose x exceeds T with 1, the others with 0.
std::vector<uint8_t> mark_beyond(const Reference& reference, int32_t dtype, TensorId tensor,
                                 std::span<const float> got);

}  // namespace attnfuzz
