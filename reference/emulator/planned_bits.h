// What a call must leave in O and LSE, bit for bit, if a kernel computes as its plan says.
//
// A loop over rows that does what the plan says and nothing else, in the arithmetic of a device: tile by tile,
// each sum in its order, each rounding where it is declared. It is no oracle: it knows nothing of what is
// right, shares the mistakes of a plan, and says of a kernel only whether that is what it computes. Written
// from attention.h; of the kernels it has no line.
//
//   if (left_open(problem, plan).empty()) {
//     const PlannedBits due = planned_bits(problem, host_tensors, plan, ATTN_ARITHMETIC_H200, rows);
//     same_bits(due.o[n * due.columns + c], o[due.rows[n] * due.columns + c]);   // any NaN equals any NaN
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::literal {

struct PlannedBits {
  int64_t columns = 0;        // of O
  std::vector<int64_t> rows;  // as RowSpace numbers them
  std::vector<float> o;       // of the problem's dtype, a row after the other
  std::vector<float> lse;
  // Of each element of O: whether a value that is not finite at a key that the row does not see may have
  // reached it, which hangs on how rows share tiles. Empty: none.
  std::vector<uint8_t> open;
};

// Inputs in host memory, of a plan that left_open() has nothing to say of, in an arithmetic that is known.
PlannedBits planned_bits(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                         int32_t arithmetic, const std::vector<int64_t>& rows);

}  // namespace attnfuzz::literal
