// The values of a recipe, one at a time, on a host and on a device. A test compares the rows of fills.h
// with them.
//
//   fill_bits({.kind = FillKind::kPosition}, ATTN_F16, b, h, s, d, dim)
#pragma once

#include <algorithm>

#include "base/random.h"
#include "properties/case/case.h"
#include "properties/data/round16.h"
#include "properties/data/scaled_bits.h"

namespace attnfuzz {
namespace fill_values {

inline constexpr uint64_t kStep = kSplitMixStep;
inline constexpr uint64_t kMostInterval = uint64_t{1} << 40;  // rows

// The part of mix() that does not depend on its last counter.
ATTN_BOTH constexpr uint64_t row_key(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = finish64(seed + kStep);
  x = finish64(x + (a + 1) * 0xd1b54a32d192ed03);
  x = finish64(x + (b + 1) * 0xabc98388fb8fac03);
  return finish64(x + (c + 1) * 0x8cb92ba72f3d8dd7);
}

ATTN_BOTH constexpr uint64_t element(uint64_t key, uint64_t d) { return finish64(key + (d + 1) * kStep); }

}  // namespace fill_values

// A 64-bit hash of a counter: the only source of randomness in fills.
ATTN_BOTH inline uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return fill_values::element(fill_values::row_key(seed, a, b, c), d);
}

namespace fill_values {

// Written out, so that both compilers share one source; each makes an instruction of it.
ATTN_BOTH constexpr int bits_set(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555;
  x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
  return static_cast<int>((x + (x >> 4) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56);
}

// A random value is an integer of at most 24 bits times a power of two that is constant along a row. A
// float holds it exactly.
template <FillKind kind>
ATTN_BOTH int32_t random_integer(uint64_t hash, bool f16) {
  switch (kind) {
    case FillKind::kSmallInt: {
      constexpr int32_t kChoice[4] = {-2, -1, 1, 2};
      return (hash >> 62) == 3 ? kChoice[(hash >> 60) & 3] : 0;
    }
    case FillKind::kUniform:
    case FillKind::kNegative: {
      // Capped at 1 - 2^-8, because larger values would round up to 1.
      const int32_t u = std::min(static_cast<int32_t>(hash >> 40), 0xff0000);
      return kind == FillKind::kUniform ? u : -u;
    }
    case FillKind::kGaussian:
    case FillKind::kSameRows:
    case FillKind::kLevels:
    case FillKind::kBlocks:
      // The sum of 64 coins has standard deviation 4, which is 2^18 units. A uniform number smooths the steps
      // between two sums; a product makes its bits from those of the hash.
      return (bits_set(hash) - 32) * 65536 + static_cast<int32_t>((hash * kStep) >> 48) - 32768;
    case FillKind::kHuge: {
      const int32_t range = f16 ? 65504 - 8188 : 65536 - 8192;
      const int32_t low = f16 ? 8188 : 8192;
      const int32_t magnitude =
          low + static_cast<int32_t>(((hash & 0xffff) * static_cast<uint32_t>(range)) >> 16);
      return hash >> 63 ? -magnitude : magnitude;
    }
    default:
      return 0;
  }
}

// The power of two of a random value.
ATTN_BOTH inline int unit_exponent(const Fill& fill, bool f16, int64_t b, int64_t h, int64_t s) {
  switch (fill.kind) {
    case FillKind::kUniform:
    case FillKind::kNegative:
      return -24;
    case FillKind::kGaussian:
    case FillKind::kSameRows:
    case FillKind::kLevels:
      return -18;
    case FillKind::kBlocks:
      return -18 - 4 + static_cast<int>(mix(fill.seed, b, h, s / 16, ~uint64_t{0}) & 7);
    case FillKind::kHuge:
      return f16 ? 0 : 44;
    default:
      return 0;
  }
}

// The interval that a row lies in.
ATTN_BOTH constexpr int64_t interval_of(const Fill& fill, int64_t s) {
  return s / static_cast<int64_t>(fill.seed < 1 ? 1 : fill.seed > kMostInterval ? kMostInterval : fill.seed);
}
// The row of the fill that row s of a tensor repeats. If all keys repeat row 0, a query's scores are equal.
ATTN_BOTH constexpr int64_t row_of(const Fill& fill, int64_t s) {
  return fill.kind == FillKind::kSameRows ? 0 : fill.kind == FillKind::kLevels ? interval_of(fill, s) : s;
}
// The non-zero column of one-hot and interval fills.
ATTN_BOTH constexpr int64_t hot_column(const Fill& fill, int64_t s, int64_t dim) {
  return (fill.kind == FillKind::kIntervals ? interval_of(fill, s) : s) % dim;
}

// A value for every position: sign, 16 exponents around 1 (bf16: 32), and the whole mantissa. Neighbours
// are far apart. Heads and batches are offset by odd numbers, so that no two rows run in step.
ATTN_BOTH inline uint16_t position_bits(bool f16, int64_t b, int64_t h, int64_t s, int64_t d, int64_t dim) {
  const uint64_t place = static_cast<uint64_t>(d + dim * s + 4201 * h + 13331 * b);
  // odd, hence a permutation modulo any power of two
  const uint32_t code = static_cast<uint32_t>(place * 20077);
  if (f16) {
    const uint32_t c = code & 0x7fff;
    return static_cast<uint16_t>(((c & 1) << 15) | ((((c >> 1) & 15) + 15 - 8) << 10) | (c >> 5));
  }
  const uint32_t c = code & 0x1fff;
  return static_cast<uint16_t>(((c & 1) << 15) | ((((c >> 1) & 31) + 127 - 16) << 7) | (c >> 6));
}

ATTN_BOTH inline uint16_t subnormal_bits(bool f16, uint64_t hash) {
  const uint32_t count = f16 ? 1023 : 127;
  const uint32_t mantissa = 1 + static_cast<uint32_t>(((hash & 0xffff) * count) >> 16);
  return static_cast<uint16_t>(((hash >> 63) << 15) | mantissa);
}

ATTN_BOTH inline double scaled(double value, int exponent) {
  return value * exp2_exact(std::clamp(exponent, -600, 600));
}

// The number that finite bits encode.
ATTN_BOTH inline double number_of_bits(int32_t dtype, uint16_t bits) {
  const Format16 format = format16(dtype);
  const int field = (bits & 0x7fff) >> format.mantissa_bits,
            mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const double size = (field > 0 ? mantissa + (1 << format.mantissa_bits) : mantissa) *
                      exp2_exact((field > 0 ? field : 1) - format.bias - format.mantissa_bits);
  return bits & 0x8000 ? -size : size;
}

ATTN_BOTH inline uint16_t rescaled(int32_t dtype, uint16_t bits, int exponent) {
  return exponent == 0 ? bits : to_bits(dtype, scaled(number_of_bits(dtype, bits), exponent));
}

ATTN_BOTH inline int32_t random_integer(FillKind kind, uint64_t hash, bool f16) {
  switch (kind) {
    case FillKind::kSmallInt:
      return random_integer<FillKind::kSmallInt>(hash, f16);
    case FillKind::kUniform:
      return random_integer<FillKind::kUniform>(hash, f16);
    case FillKind::kNegative:
      return random_integer<FillKind::kNegative>(hash, f16);
    case FillKind::kHuge:
      return random_integer<FillKind::kHuge>(hash, f16);
    default:
      return random_integer<FillKind::kGaussian>(hash, f16);
  }
}

// A row of a random fill: what its values share, and a function for one value.
struct RandomRow {
  uint64_t key;
  int exponent;  // of the power of two
};
ATTN_BOTH inline RandomRow random_row(const Fill& fill, bool f16, int64_t b, int64_t h, int64_t s) {
  const int unit = unit_exponent(fill, f16, b, h, s) + fill.exponent;
  return {row_key(fill.seed, static_cast<uint64_t>(b), static_cast<uint64_t>(h),
                  static_cast<uint64_t>(row_of(fill, s))),
          std::clamp(unit, -600, 600)};
}
ATTN_BOTH inline uint16_t random_bits(const Fill& fill, int32_t dtype, const RandomRow& row, int64_t d) {
  const uint64_t hash = element(row.key, static_cast<uint64_t>(d));
  return scaled_bits(dtype, random_integer(fill.kind, hash, dtype == ATTN_F16), row.exponent);
}
ATTN_BOTH constexpr bool is_random(FillKind kind) {
  return kind == FillKind::kGaussian || kind == FillKind::kUniform || kind == FillKind::kNegative ||
         kind == FillKind::kSameRows || kind == FillKind::kLevels || kind == FillKind::kBlocks ||
         kind == FillKind::kHuge || kind == FillKind::kSmallInt;
}

}  // namespace fill_values

// Bits of element (b,h,s,d) of a 16-bit tensor with `dim` columns, rounded to nearest even. A value beyond
// the format becomes its largest finite number.
ATTN_BOTH inline uint16_t fill_bits(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d,
                                    int64_t dim) {
  using namespace fill_values;
  const bool f16 = dtype == ATTN_F16;
  switch (fill.kind) {
    case FillKind::kZero:
      return 0;
    case FillKind::kConstant:
      return to_bits(dtype, scaled(1, fill.exponent));
    case FillKind::kOneHot:
    case FillKind::kIntervals:
      return d == hot_column(fill, s, dim) ? to_bits(dtype, scaled(1, fill.exponent)) : uint16_t{0};
    case FillKind::kPosition:
      return rescaled(dtype, position_bits(f16, b, h, s, d, dim), fill.exponent);
    case FillKind::kSignedZero:
      return static_cast<uint16_t>((mix(fill.seed, b, h, s, d) >> 63) << 15);
    case FillKind::kSubnormal:
      return rescaled(dtype, subnormal_bits(f16, mix(fill.seed, b, h, s, d)), fill.exponent);
    default:
      return random_bits(fill, dtype, random_row(fill, f16, b, h, s), d);
  }
}

}  // namespace attnfuzz
