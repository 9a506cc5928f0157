// The values of a recipe in fp32: the kinds of fill_values.h, with all 24 bits of the mantissa random. They
// find a kernel that secretly rounds an input to fewer bits.
//
//   fill_bits32({.kind = FillKind::kUniform}, b, h, s, d, dim)
#pragma once

#include "properties/data/fill_values.h"

namespace attnfuzz {
namespace fill_values {

// An integer of at most 24 bits. Its product with a power of two is exact in fp32.
ATTN_BOTH inline int32_t random_integer32(FillKind kind, uint64_t hash) {
  switch (kind) {
    case FillKind::kUniform:
      return static_cast<int32_t>(hash >> 40);
    case FillKind::kNegative:
      return -static_cast<int32_t>(hash >> 40);
    case FillKind::kGaussian:
    case FillKind::kSameRows:
    case FillKind::kLevels:
    case FillKind::kBlocks:
      // Three bits more than in 16-bit fills: the next bits of hash * kStep, of which random_integer() uses the
      // upper 16.
      return random_integer<FillKind::kGaussian>(hash, false) * 8 +
             static_cast<int32_t>(hash * kStep >> 45 & 7);
    case FillKind::kHuge: {
      constexpr int32_t kLow = 1 << 21, kRange = (1 << 24) - kLow;
      const auto size = kLow + static_cast<int32_t>((hash & 0xffffff) * kRange >> 24);
      return hash >> 63 ? -size : size;
    }
    default:
      return random_integer<FillKind::kSmallInt>(hash, false);
  }
}

// The power of two of a random value.
ATTN_BOTH inline int unit_exponent32(const Fill& fill, int64_t b, int64_t h, int64_t s) {
  const int unit = unit_exponent(fill, false, b, h, s);
  switch (fill.kind) {
    case FillKind::kGaussian:
    case FillKind::kSameRows:
    case FillKind::kLevels:
    case FillKind::kBlocks:
      return unit - 3;
    case FillKind::kHuge:
      return 36;  // up to 2^60
    default:
      return unit;
  }
}

// A value for every position: sign, 32 exponents around 1, and the whole mantissa.
ATTN_BOTH inline uint32_t position_bits32(int64_t b, int64_t h, int64_t s, int64_t d, int64_t dim) {
  const uint64_t place = static_cast<uint64_t>(d + dim * s + 4201 * h + 13331 * b);
  const uint32_t c = static_cast<uint32_t>(place * 340573321) & 0x1fffffff;  // odd, hence a permutation
  return (c & 1) << 31 | ((c >> 1 & 31) + 127 - 16) << 23 | c >> 6;
}

ATTN_BOTH inline uint32_t subnormal_bits32(uint64_t hash) {
  return static_cast<uint32_t>(hash >> 63) << 31 |
         (1 + static_cast<uint32_t>((hash & 0x7fffff) * 0x7fffff >> 23));
}

ATTN_BOTH inline uint32_t rescaled32(uint32_t bits, int exponent) {
  return exponent == 0 ? bits : to_bits32(scaled(static_cast<double>(std::bit_cast<float>(bits)), exponent));
}

}  // namespace fill_values

// Bits of element (b,h,s,d) of an fp32 tensor with `dim` columns, rounded to nearest even. A value beyond
// the format becomes its largest finite number.
ATTN_BOTH inline uint32_t fill_bits32(const Fill& fill, int64_t b, int64_t h, int64_t s, int64_t d,
                                      int64_t dim) {
  using namespace fill_values;
  switch (fill.kind) {
    case FillKind::kZero:
      return 0;
    case FillKind::kConstant:
      return to_bits32(scaled(1, fill.exponent));
    case FillKind::kOneHot:
    case FillKind::kIntervals:
      return d == hot_column(fill, s, dim) ? to_bits32(scaled(1, fill.exponent)) : 0;
    case FillKind::kPosition:
      return rescaled32(position_bits32(b, h, s, d, dim), fill.exponent);
    case FillKind::kSignedZero:
      return static_cast<uint32_t>(mix(fill.seed, b, h, s, d) >> 63) << 31;
    case FillKind::kSubnormal:
      return rescaled32(subnormal_bits32(mix(fill.seed, b, h, s, d)), fill.exponent);
    default: {
      const uint64_t hash = mix(fill.seed, b, h, row_of(fill, s), d);
      return to_bits32(
          scaled(random_integer32(fill.kind, hash), unit_exponent32(fill, b, h, s) + fill.exponent));
    }
  }
}

}  // namespace attnfuzz
