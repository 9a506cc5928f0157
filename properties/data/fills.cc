#include "properties/data/fills.h"

#include "properties/data/bits16.h"

namespace attnfuzz {
namespace {

using namespace fill_values;

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

// Scales in fp32. This is exact, because neither the unit nor a product with it leaves the normal numbers.
template <FillKind kind>
void random_row32(uint64_t key, float unit, int64_t dim, float* out) {
  for (int64_t d = 0; d < dim; ++d) out[d] = static_cast<float>(random_integer32(kind, element(key, d))) * unit;
}

void fill_row32(const Fill& fill, int64_t b, int64_t h, int64_t s, int64_t dim, uint32_t* out) {
  const int unit = unit_exponent32(fill, b, h, s) + fill.exponent;
  const uint64_t key = row_key(fill.seed, b, h, row_of(fill, s));
  if (unit >= -120 && unit <= 100) {
    auto* const to = reinterpret_cast<float*>(out);
    switch (fill.kind) {
      case FillKind::kGaussian:
      case FillKind::kSameRows:
      case FillKind::kLevels:
      case FillKind::kBlocks:
        return random_row32<FillKind::kGaussian>(key, exp2f_exact(unit), dim, to);
      case FillKind::kUniform:
        return random_row32<FillKind::kUniform>(key, exp2f_exact(unit), dim, to);
      default:
        break;
    }
  }
  for (int64_t d = 0; d < dim; ++d) out[d] = fill_bits32(fill, b, h, s, d, dim);
}

void fill_row16(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t dim, uint16_t* out) {
  const bool f16 = dtype == ATTN_F16;
  const uint64_t key = row_key(fill.seed, b, h, row_of(fill, s));
  const int unit_exp = unit_exponent(fill, f16, b, h, s) + fill.exponent;
  // If a product with the unit would leave the normal floats, or if a position or a subnormal is rescaled,
  // elements are computed one by one.
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
    case FillKind::kIntervals: {
      std::fill_n(out, dim, uint16_t{0});
      if (dim < 1) return;
      const int64_t hot = hot_column(fill, s, dim);
      out[hot] = fill_bits(fill, dtype, b, h, s, hot, dim);
      return;
    }
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

void fill_row8(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t dim, uint8_t* out) {
  if (is_random(fill.kind) && fill.kind != FillKind::kHuge) {
    const RandomRow row = fill_values::random_row(fill, true, b, h, s);
    for (int64_t d = 0; d < dim; ++d) out[d] = fill_values8::random_bits8(fill, dtype, row, d);
    return;
  }
  for (int64_t d = 0; d < dim; ++d) out[d] = fill_bits8(fill, dtype, b, h, s, d, dim);
}

}  // namespace

void fill_row(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t dim, void* out) {
  if (dtype == ATTN_E4M3 || dtype == ATTN_E5M2)
    return fill_row8(fill, dtype, b, h, s, dim, static_cast<uint8_t*>(out));
  if (dtype == ATTN_F32) return fill_row32(fill, b, h, s, dim, static_cast<uint32_t*>(out));
  fill_row16(fill, dtype, b, h, s, dim, static_cast<uint16_t*>(out));
}

}  // namespace attnfuzz
