// Sweeps of the elementary functions: each N-th of all 2^32 inputs, compared
// with the double-precision function of the platform, which is wrong by less
// than 2^-50 and so tells errors of 2^-24 to eight digits.
//
//   Findings ex2 = sweep(Function::kEx2, 1, device);
//   ex2.relative * 0x1p24   // in units of 2^-24
#pragma once

#include <cstdint>

#include "reference/calibrate/device.h"

namespace attn {

enum class Function { kEx2, kLg2, kRcp, kTanh };
inline constexpr Function kFunctions[] = {Function::kEx2, Function::kLg2, Function::kRcp, Function::kTanh};

struct Findings {
  uint64_t inputs;
  // Largest error of a result that is a normal number, and where. A logarithm's
  // error on [1/2, 2] is absolute; a subnormal result's is relative to 2^-126.
  double relative, absolute;
  uint32_t relative_at, absolute_at;
  // Subnormal inputs taken for 0 (or for which that makes no difference), and not.
  uint64_t inputs_flushed, inputs_kept;
  // Results below 2^-126 that became 0, and that did not.
  uint64_t results_flushed, results_kept;
  double largest_flushed;    // of the exact results that became 0; magnitudes
  double smallest_infinite;  // of the finite ones that became infinite; 0: none
  // Results of the wrong kind: a NaN, an infinity, a zero or a sign that should not be, or should be.
  uint64_t wrong;
  uint32_t first_wrong;
};

Findings sweep(Function function, uint32_t stride, const Device& device);

}  // namespace attn
