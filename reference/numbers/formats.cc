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
      return {0x1p-4, 0x1p-10, 448, 464};
    case ATTN_FORMAT_E5M2:
      return {0x1p-3, 0x1p-17, 57344, 61440};
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
    default:
      return decode_all<float, float>(base, index, stride, count, out);
  }
}

double decode(int32_t dtype, const void* base, int64_t index) {
  double value;
  decode_strided(dtype, base, index, 1, 1, &value);
  return value;
}

uint16_t encode16(int32_t dtype, float value) {
  return dtype == ATTN_F16 ? Eigen::numext::bit_cast<uint16_t>(Eigen::half(value))
                           : Eigen::numext::bit_cast<uint16_t>(Eigen::bfloat16(value));
}

}  // namespace attnfuzz
