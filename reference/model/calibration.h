// The table of the errors that the instructions of one device may have.
//
// The bound needs a figure for every approximate instruction of a kernel. Documentation gives figures
// without a guarantee; an exhaustive sweep gives the truth for one device. Either is a Calibration: a small
// table, stored as a readable file under reference/calibrations/, or written by `attnfuzz calibrate`. In
// the file, errors are multiples of 2^-24. Here they are relative errors (absolute near the zero of a
// logarithm).
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
  std::string device;  // the device's name, for messages
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
  int mma_block = 0;       // products that the tensor core adds at once; fewer is looser
  // Adding c <= mma_block products errs by (c mma_product + mma_sum) of the largest term or sum: alignment cuts
  // each term off, then the sum is rounded. Files without these figures get mma_unit and twice mma_unit.
  double mma_product = 0;
  double mma_sum = 0;
  // A non-zero fp16 factor below this is aligned as if it had this size. 2^-14: subnormals are aligned by the
  // exponent they are stored with. 0: they are aligned by their value.
  double mma_least_f16 = 0;
  // attn_arithmetic: the model whose errors these are (kernels/executor/arithmetic/arithmetic.h). Cases in
  // another device's arithmetic are not judged by this table.
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;

  // Not a property of the device: the most that plans may claim (error_cap.h). Empty: plans are trusted.
  std::optional<attn_plan> error_cap = {};
};

const Calibration& documented();  // the loosest documented classes, for any unknown device
const Calibration& executor();    // the CPU executor
const Calibration& h200();        // NVIDIA H200

// On failure, sets *error to a sentence and returns documented(). Otherwise clears *error.
Calibration read_calibration(const std::string& path, std::string* error);
Calibration parse_calibration(const std::string& text, std::string* error);

std::string calibration_text(const Calibration& calibration);

}  // namespace attnfuzz
