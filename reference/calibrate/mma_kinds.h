// Kinds of numbers that distinguish ways to add products. They are functions of a hash, the same on both
// back ends.
#pragma once

#include "kernels/primitives/types.h"

namespace attn {

enum class MmaKind : int {
  kAlike,       // exponents within 8 of one another
  kSpread,      // all exponents, and zeros
  kSubnormal,   // the smallest numbers, subnormals and zeros
  kCancelling,  // products in pairs that cancel, most of them exactly
  kLargest,     // sums that exceed fp32, if the format can
  kNotFinite,   // infinities and NaNs between ordinary numbers
  kAnyBits,     // all 65,536 numbers, all 2^32 starts
  kFew,         // three products in four are zeros
};
inline constexpr const char* kMmaKinds[] = {"alike",   "spread",     "subnormals", "cancelling",
                                            "largest", "not finite", "any bits",   "few"};

template <class T>
struct Layout16;
template <>
struct Layout16<F16> {
  static constexpr int kExponent = 5, kFraction = 10, kBias = 15;
};
template <>
struct Layout16<BF16> {
  static constexpr int kExponent = 8, kFraction = 7, kBias = 127;
};

// The bits of a factor.
template <class T>
__host__ __device__ uint16_t draw_factor(MmaKind kind, uint64_t hash) {
  using L = Layout16<T>;
  constexpr int kTop = (1 << L::kExponent) - 1;
  const auto sign = static_cast<uint32_t>(hash & 1) << 15;
  const auto fraction = static_cast<uint32_t>(hash >> 8) & ((1u << L::kFraction) - 1);
  const auto context = static_cast<uint32_t>(hash >> 32);
  const uint32_t other = context >> 12;
  int exponent = L::kBias - 4 + static_cast<int>(other % 8);
  bool zero = false;
  switch (kind) {
    case MmaKind::kAlike:
      break;
    case MmaKind::kSpread:
      exponent = 1 + static_cast<int>(other % (kTop - 1)), zero = context % 5 == 0;
      break;
    case MmaKind::kSubnormal:
      exponent = context % 3 == 0 ? 0 : static_cast<int>(other % (kTop / 3)), zero = context % 7 == 0;
      break;
    case MmaKind::kCancelling:
      exponent = L::kBias + (context % 3 == 0 ? static_cast<int>(other % 16) - 8 : 0);
      break;
    case MmaKind::kLargest:
      exponent = kTop - 1 - static_cast<int>(other % (kTop / 4));
      break;
    case MmaKind::kNotFinite:
      if (context % 97 == 0) return static_cast<uint16_t>(sign | kTop << L::kFraction | (fraction | 1));
      if (context % 40 == 0) return static_cast<uint16_t>(sign | kTop << L::kFraction);
      zero = context % 5 == 0;
      break;
    case MmaKind::kAnyBits:
      return static_cast<uint16_t>(hash >> 20);
    case MmaKind::kFew:
      zero = context % 4 != 0;
      break;
  }
  return static_cast<uint16_t>(zero ? sign : sign | static_cast<uint32_t>(exponent) << L::kFraction | fraction);
}

// The bits of the number that products are added to.
__host__ __device__ inline uint32_t draw_start(MmaKind kind, uint64_t hash) {
  const auto sign = static_cast<uint32_t>(hash & 1) << 31;
  const auto fraction = static_cast<uint32_t>(hash >> 8) & 0x7FFFFF;
  const auto context = static_cast<uint32_t>(hash >> 32);
  const uint32_t other = context >> 12;
  if (kind == MmaKind::kAnyBits) return static_cast<uint32_t>(hash >> 16);
  if (context % 11 == 0) return sign;
  if (kind == MmaKind::kNotFinite && context % 30 == 1) return sign | 0x7F800000;
  if (kind == MmaKind::kNotFinite && context % 61 == 1) return sign | 0x7F800000 | fraction | 1;
  const uint32_t exponent = kind == MmaKind::kSpread      ? other % 254
                            : kind == MmaKind::kSubnormal ? other % 100
                            : kind == MmaKind::kLargest   ? 200 + other % 55
                                                          : 107 + other % 40;
  return sign | exponent << 23 | fraction;
}

}  // namespace attn
