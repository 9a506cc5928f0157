// Finds out how the tensor core adds. One mma.m16n8k16 adds 16 products to an fp32 number. Hardware does
// this in blocks of k products: within a block, terms are aligned to the largest and truncated there, and
// the sum is truncated or rounded to fp32 once (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of
// NVIDIA tensor cores", PeerJ CS 330, 2021; Khattak and Mikaitis, arXiv 2512.07004, 2025). Each probe is a
// sum with a known exact result whose computed result shows one such choice:
//
//   1 + 2^-24 (at i) + 2^-24 (at j)   1 + 2^-23 if i and j are added before rounding: one block
//   1 + 1.5 * 2^-24                   rounded, or cut off
//   1 - 1 + 2^-(23+e) in one block    0 if terms are cut off at less than e bits below the largest
//   2^-24 * 2^15 + 2^-28              2^-9 if an fp16 subnormal is aligned by the exponent it is stored with, -14
//
// Random products confirm what was found: for each, |error| <= (16 + 2 * 16 / block) * unit * sum |terms|.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "reference/calibrate/device.h"

namespace attn {

struct MmaFindings {
  std::string format;      // of the factors: "f16" or "bf16"
  uint64_t rounding_seed;  // env.schedule_seed
  // Products added at once. 1: a chain of multiply-adds, each rounded.
  int block;
  bool regular;          // positions form blocks of equal size, and all rows and columns agree
  std::string rounding;  // of the sum: "nearest", "zero", "up", "down", or "none of the known ones"
  // bits kept below fp32's last place of the largest term; kMostBits: at least that many
  int alignment_bits;
  bool nominal_subnormals;  // f16: they are aligned as if they were 2^-14
  bool propagates_nan;      // 0 * NaN, 0 * inf and inf - inf are NaN
  // Over the random products, in units of 2^-24: the largest error relative to the largest term, and the mean
  // error relative to the sum of terms of one sign (below 0: results are too small).
  double worst, bias;
  double worst_ratio;  // largest ratio of an error to what block and unit allow: at most 1
  uint64_t products;   // random sums compared

  // The figures for the bound; see Calibration::mma_unit and mma_block.
  double unit() const { return rounding == "nearest" ? 1 : 2; }
  // Calibration::mma_product and mma_sum. A chain rounds at each product; a block truncates each of its terms
  // at the last bit kept, and rounds once.
  double product_error() const { return block == 1 ? unit() : cut_off(); }
  double sum_error() const { return block == 1 ? 0 : cut_off() + unit(); }
  // In a chain every product costs one rounding. The bound's two extra roundings a block, for alignment and for
  // the sum, are not needed.
  int charged_block() const { return block == 1 ? 16 : block; }
  static constexpr int kMostBits = 24;

 private:
  // The smallest term that is kept, in units of 2^-24 of the largest.
  double cut_off() const { return alignment_bits == kMostBits ? 0 : std::ldexp(2.0, -alignment_bits); }
};

// `random`: number of random mma of 128 sums each.
std::vector<MmaFindings> probe_mma(const Device& device, int random);

}  // namespace attn
