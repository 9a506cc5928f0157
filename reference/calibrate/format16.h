// 16-bit formats on the host, for probes: exact values only.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace attn {

struct Format16 {
  bool bf16;
  int fraction() const { return bf16 ? 7 : 10; }
  int least_exponent() const { return bf16 ? -126 : -14; }  // of a normal number
  int bias() const { return bf16 ? 127 : 15; }

  double decode(uint16_t bits) const {
    const int exponent = bits >> fraction() & (2 * bias() + 1), fraction_bits = bits & ((1 << fraction()) - 1);
    double size;
    if (exponent == 2 * bias() + 1) {
      size = fraction_bits != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
      size = std::ldexp(fraction_bits, least_exponent() - fraction());
    } else {
      size = std::ldexp(fraction_bits + (1 << fraction()), exponent - bias() - fraction());
    }
    return bits & 0x8000 ? -size : size;
  }

  // Throws if the format cannot represent the value exactly.
  uint16_t encode(double value) const {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const uint16_t infinity = static_cast<uint16_t>((2 * bias() + 1) << fraction());
    if (std::isnan(value)) return static_cast<uint16_t>(infinity | 1 << (fraction() - 1));
    if (std::isinf(value)) return sign | infinity;
    if (value == 0) return sign;
    const int exponent = std::max(std::ilogb(value), least_exponent());
    const double units = std::ldexp(std::fabs(value), fraction() - exponent);
    const int whole = static_cast<int>(units);
    const int biased = whole >> fraction() ? exponent + bias() : 0;
    const uint16_t bits =
        static_cast<uint16_t>(sign | biased << fraction() | (whole & ((1 << fraction()) - 1)));
    if (decode(bits) != value) throw std::logic_error("a probe's value is not exact in its 16-bit format");
    return bits;
  }
};

}  // namespace attn
