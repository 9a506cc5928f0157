// How wrong the instructions of one device may be.
//
// The bound needs a figure for every approximate instruction that a kernel
// uses. Documentation gives figures but no guarantee; an exhaustive sweep on a
// device gives the truth for that device. Either is a Calibration: a small
// table, committed as a readable file under reference/calibrations/ and written
// by `attnfuzz calibrate`. In the file errors are multiples of 2^-24, here
// plain relative errors (absolute near the zero of a logarithm).
//
//   std::string error;
//   Calibration mine = read_calibration("my-gpu.json", &error);
//   if (!error.empty()) mine = documented();
#pragma once

#include <optional>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz {

struct Calibration {
  std::string name;    // "h200"
  std::string device;  // what it describes, for a person
  std::string origin;  // where the figures come from
  bool measured = false;

  double ex2 = 0;        // ex2.approx.ftz.f32
  double exp2f = 0;      // exp2f
  double expf = 0;       // expf
  double fast_expf = 0;  // __expf(x): fast_expf + fast_expf_slope * |x|
  double fast_expf_slope = 0;
  double lg2 = 0;          // lg2.approx: absolute on [0.5, 2], relative elsewhere
  double logf = 0;         // logf, log2f: relative
  double fast_logf = 0;    // __logf: as lg2
  double rcp = 0;          // rcp.approx
  double rcp_exact = 0;    // correctly rounded reciprocal or division
  double tanh_approx = 0;  // tanh.approx.f32
  double tanhf = 0;        // tanhf
  double mma_unit = 0;     // error of rounding a block's sum
  int mma_block = 0;       // products the tensor core adds at once; fewer is looser
  // Adding c <= mma_block products to what is there errs by (c mma_product + mma_sum)
  // of the largest term or sum: each term is cut off where alignment ends, then the
  // sum is rounded. Without figures of their own: mma_unit, and twice that.
  double mma_product = 0;
  double mma_sum = 0;
  // The least |x| that a non-zero fp16 factor is aligned as: 2^-14 where subnormals
  // keep the exponent they are stored with; 0: aligned by their value.
  double mma_least_f16 = 0;
  // attn_arithmetic: of which model these are the errors too (kernels/executor/arithmetic/arithmetic.h); cases in
  // another device's arithmetic are not judged by it.
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;

  // Not of the device: what plans may claim at most (ceiling.h); none: they are believed.
  std::optional<attn_plan> ceiling = {};
};

const Calibration& documented();  // the loosest documented classes: any device not otherwise known
const Calibration& executor();    // the CPU executor
const Calibration& h200();        // NVIDIA H200

// On failure leaves a sentence in *error and returns documented(); clears *error otherwise.
Calibration read_calibration(const std::string& path, std::string* error);
Calibration parse_calibration(const std::string& text, std::string* error);

std::string calibration_text(const Calibration& calibration);

}  // namespace attnfuzz
