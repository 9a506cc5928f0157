// Products of a tensor core, bit for bit. A block of products, and the number to which they are added, are
// aligned to the largest of them and truncated, then added exactly, and the sum is truncated to fp32.
//
//   e(x) = floor(log2 |x|), at least `least_*`
//   E    = the largest of e(a) + e(b) over products that are not 0, of e(c) unless c is 0,
//          and of `floor`
//   s    = sum of the terms, each a multiple of 2^(E - fraction) toward zero; exact
//   d    = s 2^(E - fraction), truncated to fp32, subnormals kept; a zero result is +0
//
// A result beyond the largest number is infinity. NaN, 0 x infinity and infinity - infinity
// give NaN, which is 0x7FFFFFFF. For 16 factors and c, mma.sync and wgmma give the same bits
// (docs/how-it-works/executor.md).
#pragma once

#include <stdint.h>

#include "kernels/executor/arithmetic/device/functions.h"

namespace simt::device {

struct Products {
  int block;     // products added at once
  int fraction;  // bits kept below 2^E
  int least_f16, least_bf16, least_c;
  int floor;
};

inline constexpr Products kHopperProducts{16, 25, -14, -126, -126, -133};
// sm_80 and sm_89: 16 factors of mma.sync are two blocks, and the first block is added first. This follows
// publications, and recorded results agree (docs/results/bits.md). least_* and floor were measured on Hopper
// only.
inline constexpr Products kAmpereProducts{8, 24, -14, -126, -126, -133};

// The parts of a finite fp32 number x: |x| = significand 2^(exponent - 23).
struct Parts {
  int exponent;
  uint32_t significand;
};
constexpr Parts parts(uint32_t x) {
  const int exponent = static_cast<int>(x >> 23 & 255);
  return exponent ? Parts{exponent - 127, (x & 0x7FFFFF) | 0x800000} : Parts{-126, x & 0x7FFFFF};
}
constexpr bool is_zero(uint32_t x) { return (x & ~kSign) == 0; }
constexpr bool is_finite(uint32_t x) { return (x & kInfinity) != kInfinity; }
constexpr bool is_nan(uint32_t x) { return (x & ~kSign) > kInfinity; }
constexpr int larger(int a, int b) { return a > b ? a : b; }

// Returns sum 2^exponent as fp32, rounded toward zero.
constexpr uint32_t cut_off(int64_t sum, int exponent) {
  const uint32_t sign = sum < 0 ? kSign : 0;
  uint64_t size = sum < 0 ? 0 - static_cast<uint64_t>(sum) : static_cast<uint64_t>(sum);
  if (size == 0) return 0;
  // Keeps 24 bits, or fewer if the unit would fall below 2^-149.
  for (; size >> 24 != 0 || exponent < -149; ++exponent) size >>= 1;
  if (size == 0) return 0;
  for (; size >> 23 == 0 && exponent > -149; --exponent) size <<= 1;
  if (exponent > 104) return sign | kInfinity;
  // A normal size has a leading bit, which adds 1 to the exponent field. A subnormal size has none, so the
  // field is 0.
  return sign | static_cast<uint32_t>(size + static_cast<uint64_t>(exponent + 149) * 0x800000);
}

// c + sum a[i] b[i * b_step] over one block, all as bits of fp32. `least` is the least_* of the factors'
// format.
constexpr uint32_t add_block(const Products& p, int least, const uint32_t* a, const uint32_t* b, int b_step,
                             uint32_t c, int count) {
  int top = p.floor;
  bool nan = is_nan(c), infinite[2] = {c == kInfinity, c == (kSign | kInfinity)};
  if (is_finite(c) && !is_zero(c)) top = larger(top, larger(parts(c).exponent, p.least_c));
  // A number that is subnormal in fp32 has an exponent below any `least`.
  for (int i = 0; i < count; ++i) {
    const uint32_t x = a[i], y = b[i * b_step];
    if (!is_finite(x) || !is_finite(y)) {
      if (is_nan(x) || is_nan(y) || is_zero(x) || is_zero(y)) nan = true;
      infinite[(x ^ y) >> 31] = true;
    } else if (!is_zero(x) && !is_zero(y)) {
      top = larger(top, larger(parts(x).exponent, least) + larger(parts(y).exponent, least));
    }
  }
  if (nan || (infinite[0] && infinite[1])) return kNaN;
  if (infinite[0] || infinite[1]) return infinite[0] ? kInfinity : kSign | kInfinity;
  const auto aligned = [&](uint64_t significand, int exponent, bool negative) {
    const int shift = top - p.fraction - exponent;
    const uint64_t size = shift > 63 ? 0 : shift >= 0 ? significand >> shift : significand << -shift;
    return negative ? -static_cast<int64_t>(size) : static_cast<int64_t>(size);
  };
  int64_t sum = aligned(parts(c).significand, parts(c).exponent - 23, c >> 31);
  for (int i = 0; i < count; ++i) {
    const uint32_t x = a[i], y = b[i * b_step];
    sum += aligned(uint64_t{parts(x).significand} * parts(y).significand,
                   parts(x).exponent + parts(y).exponent - 46, (x ^ y) >> 31);
  }
  return cut_off(sum, top - p.fraction);
}

}  // namespace simt::device
