#include "reference/numbers/formats.h"

#include <Eigen/Core>
#include <bit>
#include <cmath>

namespace attnfuzz {
namespace {

// No branches or tables, so that many values are decoded at once.
float value_of(uint16_t bits, Eigen::half) {
  // A product corrects the difference of 112 in the exponent's bias, also for subnormals.
  const float size = std::bit_cast<float>(uint32_t{bits & 0x7fffu} << 13) * 0x1p112f;
  const uint32_t infinite = size >= 0x1p16f ? 0x7f800000u : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | infinite | uint32_t{bits & 0x8000u} << 16);
}
float value_of(uint16_t bits, Eigen::bfloat16) { return std::bit_cast<float>(uint32_t{bits} << 16); }
float value_of(float value, float) { return value; }

struct E4M3 {};
struct E5M2 {};
float value_of(uint8_t bits, E4M3) {
  const uint32_t magnitude = bits & 0x7fu;
  // A product corrects the difference of 120 in the exponent's bias, also for subnormals.
  const float size = std::bit_cast<float>(magnitude << 20) * 0x1p120f;
  const uint32_t nan = magnitude == 0x7f ? 0x7fc00000u : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(size) | nan | uint32_t{bits & 0x80u} << 24);
}
// E5M2 is the upper half of fp16.
float value_of(uint8_t bits, E5M2) { return value_of(static_cast<uint16_t>(bits << 8), Eigen::half{}); }

template <typename Bits, typename Number>
void decode_all(const void* base, int64_t index, int64_t stride, int64_t count, double* out) {
  const Bits* from = static_cast<const Bits*>(base) + index;
  if (stride == 1)
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(value_of(from[i], Number{}));
  else
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<double>(value_of(from[i * stride], Number{}));
}

}  // namespace

Format format_of(int32_t dtype) {
  switch (dtype) {
    case ATTN_F16:
      return {0x1p-11, 0x1p-25, 65504.0, 65520.0};
    case ATTN_BF16:
      return {0x1p-8, 0x1p-134, 0x1p128 - 0x1p120, 0x1p128 - 0x1p119};
    case ATTN_E4M3:
      return {0x1p-4, 0x1p-10, 448, 464};
    case ATTN_E5M2:
      return {0x1p-3, 0x1p-17, 57344, 61440};
    default:
      return {0x1p-24, 0x1p-150, 0x1p128 - 0x1p104, 0x1p128 - 0x1p103};
  }
}

Format numbers_of(int32_t format, int32_t dtype) {
  switch (format) {
    case ATTN_FORMAT_F32:
      return format_of(ATTN_F32);
    case ATTN_FORMAT_TF32:
      return {0x1p-11, 0x1p-137, 0x1p128 - 0x1p117, 0x1p128 - 0x1p116};
    case ATTN_FORMAT_E4M3:
      return format_of(ATTN_E4M3);
    case ATTN_FORMAT_E5M2:
      return format_of(ATTN_E5M2);
    case ATTN_FORMAT_F16:
      return format_of(ATTN_F16);
    case ATTN_FORMAT_BF16:
      return format_of(ATTN_BF16);
    default:
      return format_of(dtype);
  }
}

void decode_strided(int32_t dtype, const void* base, int64_t index, int64_t stride, int64_t count,
                    double* out) {
  switch (dtype) {
    case ATTN_F16:
      return decode_all<uint16_t, Eigen::half>(base, index, stride, count, out);
    case ATTN_BF16:
      return decode_all<uint16_t, Eigen::bfloat16>(base, index, stride, count, out);
    case ATTN_E4M3:
      return decode_all<uint8_t, E4M3>(base, index, stride, count, out);
    case ATTN_E5M2:
      return decode_all<uint8_t, E5M2>(base, index, stride, count, out);
    default:
      return decode_all<float, float>(base, index, stride, count, out);
  }
}

double decode(int32_t dtype, const void* base, int64_t index) {
  double value;
  decode_strided(dtype, base, index, 1, 1, &value);
  return value;
}

uint8_t encode8(int32_t dtype, double value) {
  const bool e4m3 = dtype == ATTN_E4M3;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | (e4m3 ? 0x7f : 0x7e);
  if (std::isinf(value)) return sign | (e4m3 ? 0x7e : 0x7c);
  const double size = std::abs(value);
  const int least = e4m3 ? -6 : -14, bits = e4m3 ? 3 : 2;  // exponent of normal numbers, bits of a mantissa
  const int exponent = size == 0 ? least : std::max(std::ilogb(size), least);
  // The number of units in the last place. If rounding carries, the exponent's bits grow by 1, as they should.
  const double units = std::nearbyint(std::ldexp(size, bits - exponent));
  const double code = std::ldexp(exponent - least, bits) + units;
  return sign | static_cast<uint8_t>(std::min(code, e4m3 ? 126.0 : 123.0));
}

uint16_t encode16(int32_t dtype, float value) {
  return dtype == ATTN_F16 ? Eigen::numext::bit_cast<uint16_t>(Eigen::half(value))
                           : Eigen::numext::bit_cast<uint16_t>(Eigen::bfloat16(value));
}

}  // namespace attnfuzz
