// The formats of attention.h in double precision.
//
// The oracle reads inputs in the kernel's format, and charges the kernel for rounding to its output format.
// Both are defined here and nowhere else. Conversions are Eigen's, so this folder needs no CUDA.
//
//   double x = decode(ATTN_F16, q.data, index);       // index in elements
//   uint16_t bits = encode16(ATTN_BF16, 0.1f);        // round to nearest even
//   double rounding = format_of(ATTN_F16).unit;       // 2^-11
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace attnfuzz {

struct Format {
  double unit;      // u: relative error of rounding to nearest, 2^-precision
  double tiny;      // eta: absolute error of rounding among the subnormals
  double max;       // the largest finite value
  double overflow;  // from here on, rounding to nearest gives an infinity
};

// dtype: any of attn_dtype but ATTN_NONE. Rounding to 8 bits never gives an infinity here. For
// these formats, `overflow` is where rounding to nearest would exceed `max`.
Format format_of(int32_t dtype);

// The format of an attn_format. ATTN_FORMAT_OF_INPUT and ATTN_FORMAT_UNKNOWN mean `dtype`, the inputs'
// type.
Format numbers_of(int32_t format, int32_t dtype);

// The value of element `index` of an array of dtype, exactly.
double decode(int32_t dtype, const void* base, int64_t index);

// Rounds to nearest even; dtype is ATTN_F16 or ATTN_BF16. NaN stays NaN.
uint16_t encode16(int32_t dtype, float value);
// Rounds to nearest even; dtype is ATTN_E4M3 or ATTN_E5M2. A value beyond the format becomes its
// largest number. So does an infinity, except in E5M2, which has infinities. NaN stays NaN.
uint8_t encode8(int32_t dtype, double value);

// Decodes count elements that lie `stride` elements apart.
void decode_strided(int32_t dtype, const void* base, int64_t index, int64_t stride, int64_t count, double* out);

}  // namespace attnfuzz
