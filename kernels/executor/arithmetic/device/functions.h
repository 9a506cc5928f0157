// ex2, lg2, rcp and rsqrt (approx.ftz.f32) as NVIDIA's special function unit computes
// them, bit for bit.
//
// The range of the fraction is divided into 64 or 128 segments. Each has a parabola with integer coefficients.
// r is the offset within the segment. Its square is approximate, because the squarer drops the low columns of
// its sum. Products and the sum are exact, and the result is truncated:
//
//   (c0 2^a + c1 r + c2 2^b square(r) + bias) / 2^n
//
// (Oberman and Siu, "A high-performance area-efficient multifunction interpolator",
// ARITH-17, 2005; envytools found the widths, shifts and biases on G80.) The coefficients are fitted
// to a device's results for every number of a segment (reference/calibrate/fit_functions.cc). functions_h200.cc
// has the coefficients of an H200.
//
// Numbers are IEEE 754 bits, so that the same code runs on both back ends:
//
//   uint32_t half = ex2(h200_functions(), 0xBF800000);  // 0x3F000000
#pragma once

#include <stdint.h>

namespace simt::device {

struct Segment {
  int32_t c0, c1, c2;
};

struct Functions {
  Segment ex2[64];
  Segment lg2[64];
  Segment rcp[128];
  Segment rsqrt[2][64];  // of [1, 2) and of [2, 4)
};

const Functions& h200_functions();

inline constexpr uint32_t kNaN = 0x7FFFFFFF, kInfinity = 0x7F800000, kSign = 0x80000000;

// About r^2 / 2^19 for r of 17 bits: each row of the product is truncated before the rows are added.
constexpr uint32_t square(uint32_t r) {
  uint32_t sum = 0;
  for (int bit = 2; bit < 17; ++bit) sum += (0 - (r >> bit & 1)) & r >> (18 - bit);
  return sum >> 1;
}

// The shifts and the bias of a function's parabola. Functions return them by value, because device code cannot
// refer to a host constant.
struct Shape {
  int c0_shift, c2_shift, bias, cut;
};
constexpr Shape ex2_shape() { return {13, 0, 0x77E2, 15}; }
constexpr Shape lg2_shape() { return {12, 1, 0x3345, 2}; }
constexpr Shape rcp_shape() { return {13, 0, 0x47E7, 15}; }
constexpr Shape rsqrt_shape() { return {14, 2, 0x7FFF, 16}; }

// r has 17 bits. For rcp it has 16, and is squared as if it had 17.
constexpr int64_t parabola(Shape shape, const Segment& s, uint32_t r, uint32_t squared) {
  const int64_t sum = static_cast<int64_t>(s.c0) * (int64_t{1} << shape.c0_shift) + int64_t{s.c1} * r +
                      static_cast<int64_t>(s.c2) * squared * (1 << shape.c2_shift) + shape.bias;
  return sum >> shape.cut;
}

// Significands with 23 fraction bits: 1 <= result <= 2 or 1/2 <= result <= 1.
constexpr uint32_t ex2_significand(const Functions& f, uint32_t fraction) {
  const uint32_t r = fraction & 0x1FFFF;
  return static_cast<uint32_t>(parabola(ex2_shape(), f.ex2[fraction >> 17], r, square(r)));
}
constexpr uint32_t rcp_significand(const Functions& f, uint32_t fraction) {
  const uint32_t r = fraction & 0xFFFF;
  return static_cast<uint32_t>(parabola(rcp_shape(), f.rcp[fraction >> 16], r, square(2 * r)));
}
constexpr uint32_t rsqrt_significand(const Functions& f, int odd, uint32_t fraction) {
  const uint32_t r = fraction & 0x1FFFF;
  if (!odd && fraction == 0) return 1 << 24;
  return static_cast<uint32_t>(parabola(rsqrt_shape(), f.rsqrt[odd][fraction >> 17], r, square(r)));
}
// A fixed-point number with 36 fraction bits; 0 <= value < 1.
constexpr int64_t lg2_fraction(const Functions& f, uint32_t fraction) {
  const uint32_t r = fraction & 0x1FFFF;
  return parabola(lg2_shape(), f.lg2[fraction >> 17], r, square(r));
}

constexpr uint32_t ex2(const Functions& f, uint32_t x) {
  const uint32_t size = x & ~kSign;
  const bool negative = (x & kSign) != 0;
  if (size > kInfinity) return kNaN;
  if (!negative && size >= 0x43000000) return kInfinity;  // 128
  if (negative && size > 0x42FC0000) return 0;            // -126
  // Truncates to 23 fraction bits. A negative number is complemented, not negated.
  const int shift = static_cast<int>(size >> 23) - 127;
  const uint32_t significand = (size & 0x7FFFFF) | 0x800000;
  uint32_t fixed = shift >= 0 ? significand << shift : shift > -24 ? significand >> -shift : 0;
  if (negative) fixed = fixed & 0x7FFFFF ? ~fixed : 0 - fixed;
  const auto exponent = static_cast<uint32_t>(static_cast<int32_t>(fixed) >> 23);
  return ex2_significand(f, fixed & 0x7FFFFF) + (exponent + 126) * 0x800000u;
}

constexpr uint32_t rcp(const Functions& f, uint32_t x) {
  const uint32_t size = x & ~kSign, sign = x & kSign;
  if (size > kInfinity) return kNaN;
  if (size == kInfinity) return sign;
  if (size < 0x800000) return sign | kInfinity;
  const int exponent = static_cast<int>(size >> 23);
  const int64_t result = int64_t{rcp_significand(f, size & 0x7FFFFF)} + int64_t{252 - exponent} * 0x800000;
  return result < 0x800000 ? sign : sign | static_cast<uint32_t>(result);
}

constexpr uint32_t rsqrt(const Functions& f, uint32_t x) {
  const uint32_t size = x & ~kSign, sign = x & kSign;
  if (size > kInfinity) return kNaN;
  if (size < 0x800000) return sign | kInfinity;
  if (sign) return kNaN;
  if (size == kInfinity) return 0;
  const int exponent = static_cast<int>(size >> 23) - 127;
  const int odd = exponent & 1;
  const int64_t half = (exponent - odd) / 2;
  return static_cast<uint32_t>(int64_t{rsqrt_significand(f, odd, size & 0x7FFFFF)} + (125 - half) * 0x800000);
}

constexpr uint32_t lg2(const Functions& f, uint32_t x) {
  const uint32_t size = x & ~kSign;
  if (size > kInfinity) return kNaN;
  if (size < 0x800000) return kSign | kInfinity;
  if (x & kSign) return kNaN;
  if (size == kInfinity) return kInfinity;
  if (size == 0x3F800000) return 0;
  int64_t value = lg2_fraction(f, size & 0x7FFFFF) + (int64_t{static_cast<int>(size >> 23) - 127} << 36);
  const uint32_t sign = value < 0 ? kSign : 0;
  if (sign) value = ~value;
  // Normalises and truncates.
  int high = 43;
  while (high > 0 && value >> high == 0) --high;
  const int64_t significand = high >= 23 ? value >> (high - 23) : value << (23 - high);
  return sign | static_cast<uint32_t>(significand + int64_t{high - 36 + 126} * 0x800000);
}

}  // namespace simt::device
