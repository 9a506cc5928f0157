// Reads the sink of a query head.
#pragma once

#include "kernels/forward/params.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/types.h"

namespace attn {

// The sink of head h as a score; -inf if there are no sinks.
__device__ __forceinline__ float sink_score(const Sinks& sinks, int64_t h) {
  if (sinks.data == nullptr) return neg_inf();
  const int64_t at = h * sinks.stride;
  switch (sinks.dtype) {
    case ATTN_F16:
      return to_float(static_cast<const F16*>(sinks.data)[at]);
    case ATTN_BF16:
      return to_float(static_cast<const BF16*>(sinks.data)[at]);
    default:
      return static_cast<const float*>(sinks.data)[at];
  }
}

// The sink as an exponent of two.
__device__ __forceinline__ float sink_of(const Sinks& sinks, int64_t h) { return sink_score(sinks, h) * kLog2e; }

}  // namespace attn
