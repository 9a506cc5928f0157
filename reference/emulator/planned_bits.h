// Computes, bit for bit, the O and LSE that a call must leave if a kernel computes as its plan says.
//
// A loop over rows follows the plan literally in a device's arithmetic: tile by tile, each sum in its
// order, each rounding where it is declared. It is no oracle: it does not know what is right, and it shares
// a plan's mistakes. It only says whether a kernel computes what its plan says. It was written from
// attention.h and shares no line with the kernels.
//
//   if (left_open(problem, plan).empty()) {
//     const PlannedBits due = planned_bits(problem, host_tensors, plan, ATTN_ARITHMETIC_H200, rows);
//     same_bits(due.o[n * due.columns + c], o[due.rows[n] * due.columns + c]);   // any NaN equals any NaN
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::emulator {

struct PlannedBits {
  int64_t columns = 0;        // of O
  std::vector<int64_t> rows;  // numbered as in RowSpace
  std::vector<float> o;       // in the problem's dtype, row by row
  std::vector<float> lse;
  // For each element of O: true if a non-finite value of a hidden key may have reached it, which depends on how
  // rows share tiles. Empty: none.
  std::vector<uint8_t> open;
};

// Inputs lie in host memory. Each row must be there: a packed entry may lack queries. left_open() must accept
// the plan, and the arithmetic must be known.
PlannedBits planned_bits(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                         int32_t arithmetic, const std::vector<int64_t>& rows);

}  // namespace attnfuzz::emulator
