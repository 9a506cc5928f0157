// Two ways in which a tensor takes more room than its elements: a gap after each row, and a spread, which
// enlarges only the stride of the outermost dimension.
//
// If either shows a bug, a spread is simpler than a gap, because it leaves all other strides alone. A gap
// is simpler than a far spread, one of more elements than a gap can have (kMostGap).
#pragma once

#include <cstdint>

#include "properties/case/case.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// in elements
inline constexpr int64_t kMostGap = 1 << 20;

inline bool spread_is_far(const TensorLayout& layout) { return layout.spread > kMostGap; }

// A spread of at least 2^31, so that 32-bit offsets wrap. Twice 2^31 wraps to 0, where another row lies; twice
// the other spreads wraps to 2^21 or 2^21 + 2.
inline int64_t draw_far_spread(Rng& rng) {
  return (int64_t{1} << 31) + rng.pick<int64_t>({0, 1 << 20, (1 << 20) + 1});
}

}  // namespace attnfuzz
