// Sweeps the elementary functions: each N-th of all 2^32 inputs is compared with the platform's
// double-precision function. That function errs by less than 2^-50, so errors of 2^-24 are known to eight
// digits.
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
  // The largest error of a normal result, and its input. A logarithm's error on [1/2, 2] is absolute; a
  // subnormal result's error is relative to 2^-126.
  double relative, absolute;
  uint32_t relative_at, absolute_at;
  // Subnormal inputs that count as 0 (or for which that makes no difference), and others.
  uint64_t inputs_flushed, inputs_kept;
  // Results below 2^-126 that became 0, and others.
  uint64_t results_flushed, results_kept;
  double largest_flushed;    // the largest exact result that became 0; magnitudes
  double smallest_infinite;  // the smallest finite exact result that became infinite; 0: none
  // Results of the wrong kind: an unexpected or missing NaN, infinity, zero or sign.
  uint64_t wrong;
  uint32_t first_wrong;
};

Findings sweep(Function function, uint32_t stride, const Device& device);

}  // namespace attn
