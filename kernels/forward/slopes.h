// Subtracts slope * distance of the key from exponents (ALiBi).
#pragma once

#include "kernels/forward/params.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn {

// The slope of head h in batch entry b times log2 e, for exponents of two; 0 if there are no slopes.
__device__ __forceinline__ float slope_of(const Slopes& slopes, int64_t b, int64_t h) {
  if (slopes.data == nullptr) return 0.0f;
  return slopes.data[b * slopes.of_entry + h * slopes.from_head] * kLog2e;
}

// The exponent of a score whose key lies `away` positions from the diagonal. A hidden key stays -inf, and no
// other exponent becomes -inf.
__device__ __forceinline__ float sloped(float exponent, float slope, int64_t away) {
  const float distance = static_cast<float>(away < 0 ? -away : away);
  return exponent == neg_inf() ? exponent : fmax_nan(fma(-slope, distance, exponent), lowest());
}
__device__ __forceinline__ float sloped(float exponent, float slope, int32_t away) {
  const float distance = static_cast<float>(away < 0 ? -away : away);
  return exponent == neg_inf() ? exponent : fmax_nan(fma(-slope, distance, exponent), lowest());
}

// Does the same for one row of a tile: s[n][2 row] and s[n][2 row + 1] are the exponents of key
// first_key + 8 n + 2 (lane % 4) and of the next key. `diagonal`: the key on the row's diagonal.
template <int N>
__device__ __forceinline__ void take_slope(int row, float slope, int32_t diagonal, int32_t first_key,
                                           float (&s)[N][4]) {
  const int32_t away = diagonal - first_key - static_cast<int32_t>(2 * (lane_id() % 4));
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) s[n][2 * row + e] = sloped(s[n][2 * row + e], slope, away - (8 * n + e));
  }
}

}  // namespace attn
