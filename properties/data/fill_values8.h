// The values of a recipe in 8 bits, E4M3 or E5M2, one at a time. They are the values of the 16-bit fills
// (fill_values.h), rounded to nearest even. A value beyond the format becomes its largest finite number.
//
//   fill_bits8({.kind = FillKind::kPosition}, ATTN_E4M3, b, h, s, d, dim)
//
// Three kinds differ, because they depend on the format. Positions step through all finite codes by 101, so
// neighbours differ much. Subnormals are those of the 8-bit format. A huge number is 1/8 to 1 of the format's
// largest number.
#pragma once

#include "properties/data/fill_values.h"

namespace attnfuzz {
namespace fill_values8 {

struct Format8 {
  int mantissa_bits, bias;
  uint8_t largest;  // bits of the largest finite number
};
constexpr Format8 format8(int32_t dtype) {
  return dtype == ATTN_E4M3 ? Format8{3, 7, 0x7e} : Format8{2, 15, 0x7b};
}

// `value` is finite. Rounds to nearest even, once; saturates.
inline uint8_t to_bits8(int32_t dtype, double value) {
  const Format8 format = format8(dtype);
  const auto sign = static_cast<uint8_t>(std::bit_cast<uint64_t>(value) >> 56 & 0x80);
  const int64_t magnitude = magnitude_bits(format.mantissa_bits, format.bias, value);
  return static_cast<uint8_t>(std::min<int64_t>(magnitude, format.largest)) | sign;
}

// The number that finite bits encode.
inline double number_of_bits8(int32_t dtype, uint8_t bits) {
  const Format8 format = format8(dtype);
  const int field = (bits & 0x7f) >> format.mantissa_bits, mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const double size = (field > 0 ? mantissa + (1 << format.mantissa_bits) : mantissa) *
                      exp2_exact((field > 0 ? field : 1) - format.bias - format.mantissa_bits);
  return bits & 0x80 ? -size : size;
}

inline uint8_t rescaled8(int32_t dtype, uint8_t bits, int exponent) {
  return exponent == 0 ? bits : to_bits8(dtype, fill_values::scaled(number_of_bits8(dtype, bits), exponent));
}

inline uint8_t position_bits8(int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d, int64_t dim) {
  const uint64_t place = static_cast<uint64_t>(d + dim * s + 4201 * h + 13331 * b);
  const uint64_t codes = 2 * (uint64_t{format8(dtype).largest} + 1);
  const uint64_t code = place * 101 % codes;  // 101 is coprime to the number of codes of both formats
  return static_cast<uint8_t>((code & 1) << 7 | code >> 1);
}

// A value of a row of a random fill, but not of kHuge.
inline uint8_t random_bits8(const Fill& fill, int32_t dtype, const fill_values::RandomRow& row, int64_t d) {
  const uint64_t hash = fill_values::element(row.key, static_cast<uint64_t>(d));
  return to_bits8(dtype, fill_values::random_integer(fill.kind, hash, true) * exp2_exact(row.exponent));
}

}  // namespace fill_values8

inline uint8_t fill_bits8(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d,
                          int64_t dim) {
  using namespace fill_values;
  using namespace fill_values8;
  switch (fill.kind) {
    case FillKind::kZero:
      return 0;
    case FillKind::kConstant:
      return to_bits8(dtype, scaled(1, fill.exponent));
    case FillKind::kOneHot:
    case FillKind::kIntervals:
      return d == hot_column(fill, s, dim) ? to_bits8(dtype, scaled(1, fill.exponent)) : uint8_t{0};
    case FillKind::kPosition:
      return rescaled8(dtype, position_bits8(dtype, b, h, s, d, dim), fill.exponent);
    case FillKind::kSignedZero:
      return static_cast<uint8_t>((mix(fill.seed, b, h, s, d) >> 63) << 7);
    case FillKind::kSubnormal: {
      const uint64_t hash = mix(fill.seed, b, h, s, d);
      const uint64_t most = (uint64_t{1} << format8(dtype).mantissa_bits) - 1;
      const auto bits = static_cast<uint8_t>((hash >> 63) << 7 | (1 + (hash & 0xffff) % most));
      return rescaled8(dtype, bits, fill.exponent);
    }
    case FillKind::kHuge: {
      const int32_t of_f16 = random_integer<FillKind::kHuge>(mix(fill.seed, b, h, s, d), true);
      const double largest = number_of_bits8(dtype, format8(dtype).largest);
      return to_bits8(dtype, scaled(of_f16 * (largest / 65504), fill.exponent));
    }
    default:
      return random_bits8(fill, dtype, random_row(fill, true, b, h, s), d);
  }
}

}  // namespace attnfuzz
