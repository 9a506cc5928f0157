#include "properties/data/fills.h"

#include <array>
#include <bit>

#include "properties/data/bits16.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

// The finaliser of SplitMix64: every input bit reaches every output bit.
constexpr uint64_t finish(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// What mix() makes of all but its last counter.
constexpr uint64_t row_key(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = finish(seed + kStep);
  x = finish(x + (a + 1) * 0xd1b54a32d192ed03);
  x = finish(x + (b + 1) * 0xabc98388fb8fac03);
  return finish(x + (c + 1) * 0x8cb92ba72f3d8dd7);
}

constexpr uint64_t element(uint64_t key, uint64_t d) { return finish(key + (d + 1) * kStep); }

// A random value is an integer of at most 24 bits times a power of two that is
// the same along a row, so that float holds it exactly.
template <FillKind kind>
int32_t random_integer(uint64_t hash, bool f16) {
  switch (kind) {
    case FillKind::kSmallInt: {
      constexpr int32_t kChoice[4] = {-2, -1, 1, 2};
      return (hash >> 62) == 3 ? kChoice[(hash >> 60) & 3] : 0;
    }
    case FillKind::kUniform:
    case FillKind::kNegative: {
      // Capped at 1 - 2^-8: what is nearer to 1 would round up to it.
      const int32_t u = std::min(static_cast<int32_t>(hash >> 40), 0xff0000);
      return kind == FillKind::kUniform ? u : -u;
    }
    case FillKind::kGaussian:
    case FillKind::kSameRows:
    case FillKind::kBlocks:
      // 64 coins, deviation 4, smoothed by a uniform step: in units of 2^-18 of
      // the deviation. The step comes from bits that a product has spread.
      return (std::popcount(hash) - 32) * 65536 + static_cast<int32_t>((hash * kStep) >> 48) - 32768;
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

// The power of two that goes with it.
int unit_exponent(const Fill& fill, bool f16, int64_t b, int64_t h, int64_t s) {
  switch (fill.kind) {
    case FillKind::kUniform:
    case FillKind::kNegative:
      return -24;
    case FillKind::kGaussian:
    case FillKind::kSameRows:
      return -18;
    case FillKind::kBlocks:
      return -18 - 4 + static_cast<int>(mix(fill.seed, b, h, s / 16, ~uint64_t{0}) & 7);
    case FillKind::kHuge:
      return f16 ? 0 : 44;
    default:
      return 0;
  }
}

// All scores of a query are equal if every key is the same row.
constexpr int64_t row_of(FillKind kind, int64_t s) { return kind == FillKind::kSameRows ? 0 : s; }

// A value of the format for every position: sign, 16 (bf16: 32) exponents around
// 1, and all of the mantissa. Neighbours are far apart, and two rows never run
// in step: heads and batches are offset by odd numbers.
uint16_t position_bits(bool f16, int64_t b, int64_t h, int64_t s, int64_t d, int64_t dim) {
  const uint64_t place = static_cast<uint64_t>(d + dim * s + 4201 * h + 13331 * b);
  const uint32_t code = static_cast<uint32_t>(place * 20077);  // odd: a permutation of any power of two
  if (f16) {
    const uint32_t c = code & 0x7fff;
    return static_cast<uint16_t>(((c & 1) << 15) | ((((c >> 1) & 15) + 15 - 8) << 10) | (c >> 5));
  }
  const uint32_t c = code & 0x1fff;
  return static_cast<uint16_t>(((c & 1) << 15) | ((((c >> 1) & 31) + 127 - 16) << 7) | (c >> 6));
}

uint16_t subnormal_bits(bool f16, uint64_t hash) {
  const uint32_t count = f16 ? 1023 : 127;
  const uint32_t mantissa = 1 + static_cast<uint32_t>(((hash & 0xffff) * count) >> 16);
  return static_cast<uint16_t>(((hash >> 63) << 15) | mantissa);
}

double scaled(double value, int exponent) { return value * exp2_exact(std::clamp(exponent, -600, 600)); }

uint16_t rescaled(int32_t dtype, uint16_t bits, int exponent) {
  return exponent == 0 ? bits : to_bits(dtype, scaled(to_float(dtype, bits), exponent));
}

int32_t random_integer(FillKind kind, uint64_t hash, bool f16) {
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

template <FillKind kind, bool f16>
void random_row(uint64_t key, float unit, int64_t dim, uint16_t* out) {
  for (int64_t d = 0; d < dim; ++d) {
    const float value = static_cast<float>(random_integer<kind>(element(key, d), f16)) * unit;
    out[d] = f16 ? f16_from_float(value) : bf16_from_float(value);
  }
}

template <FillKind kind>
void random_row(bool f16, uint64_t key, float unit, int64_t dim, uint16_t* out) {
  f16 ? random_row<kind, true>(key, unit, dim, out) : random_row<kind, false>(key, unit, dim, out);
}

}  // namespace

uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return element(row_key(seed, a, b, c), d);
}

uint16_t fill_bits(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d, int64_t dim) {
  const bool f16 = dtype == ATTN_F16;
  switch (fill.kind) {
    case FillKind::kZero:
      return 0;
    case FillKind::kConstant:
      return to_bits(dtype, scaled(1, fill.exponent));
    case FillKind::kOneHot:
      return d == s % dim ? to_bits(dtype, scaled(1, fill.exponent)) : uint16_t{0};
    case FillKind::kPosition:
      return rescaled(dtype, position_bits(f16, b, h, s, d, dim), fill.exponent);
    case FillKind::kSignedZero:
      return static_cast<uint16_t>((mix(fill.seed, b, h, s, d) >> 63) << 15);
    case FillKind::kSubnormal:
      return rescaled(dtype, subnormal_bits(f16, mix(fill.seed, b, h, s, d)), fill.exponent);
    default: {
      const uint64_t hash = mix(fill.seed, b, h, row_of(fill.kind, s), d);
      const int unit = unit_exponent(fill, f16, b, h, s) + fill.exponent;
      return to_bits(dtype, scaled(random_integer(fill.kind, hash, f16), unit));
    }
  }
}

void fill_row(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t dim, uint16_t* out) {
  const bool f16 = dtype == ATTN_F16;
  const uint64_t key = row_key(fill.seed, b, h, row_of(fill.kind, s));
  const int unit_exp = unit_exponent(fill, f16, b, h, s) + fill.exponent;
  // Where a product with the unit would leave the normal floats, or a position
  // or subnormal is rescaled, elements take the slow way.
  const bool as_float = unit_exp >= -120 && unit_exp <= 100;
  const float unit = as_float ? exp2f_exact(unit_exp) : 0;
  switch (fill.kind) {
    case FillKind::kZero:
      std::fill_n(out, dim, uint16_t{0});
      return;
    case FillKind::kConstant:
      std::fill_n(out, dim, fill_bits(fill, dtype, b, h, s, 0, dim));
      return;
    case FillKind::kOneHot:
      std::fill_n(out, dim, uint16_t{0});
      if (dim > 0) out[s % dim] = fill_bits(fill, dtype, b, h, s, s % dim, dim);
      return;
    case FillKind::kPosition:
      for (int64_t d = 0; d < dim; ++d) {
        out[d] = rescaled(dtype, position_bits(f16, b, h, s, d, dim), fill.exponent);
      }
      return;
    case FillKind::kSignedZero:
      for (int64_t d = 0; d < dim; ++d) out[d] = static_cast<uint16_t>((element(key, d) >> 63) << 15);
      return;
    case FillKind::kSubnormal:
      for (int64_t d = 0; d < dim; ++d) {
        out[d] = rescaled(dtype, subnormal_bits(f16, element(key, d)), fill.exponent);
      }
      return;
    default:
      break;
  }
  if (!as_float) {
    for (int64_t d = 0; d < dim; ++d) {
      out[d] = to_bits(dtype, scaled(random_integer(fill.kind, element(key, d), f16), unit_exp));
    }
    return;
  }
  switch (fill.kind) {
    case FillKind::kSmallInt:
      return random_row<FillKind::kSmallInt>(f16, key, unit, dim, out);
    case FillKind::kUniform:
      return random_row<FillKind::kUniform>(f16, key, unit, dim, out);
    case FillKind::kNegative:
      return random_row<FillKind::kNegative>(f16, key, unit, dim, out);
    case FillKind::kHuge:
      return random_row<FillKind::kHuge>(f16, key, unit, dim, out);
    default:
      return random_row<FillKind::kGaussian>(f16, key, unit, dim, out);
  }
}

}  // namespace attnfuzz
