// Slopes: each head subtracts its slope times the key's distance from a score (ATTN_FEATURE_ALIBI).
#pragma once

#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {

// The slope of query head h of batch entry b; 0 if there are none.
inline double slope_of(const attn_problem& problem, const attn_tensors& host, int64_t b, int64_t h) {
  if (!problem.has_alibi) return 0;
  return decode(ATTN_F32, host.slopes.data, offset_of(host.slopes, b, h, 0, 0));
}

}  // namespace attnfuzz
