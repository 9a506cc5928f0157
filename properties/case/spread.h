// Two ways in which a tensor takes more room than its elements: a gap after each row, and a spread,
// by which its outermost dimension alone steps further.
//
// Where either shows a bug, a spread is simpler than a gap, for it leaves all other strides as they are;
// but a gap is simpler than gigabytes of addresses, which a spread has where it is longer than a gap can be.
#pragma once

#include <cstdint>

#include "properties/case/case.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// In elements.
inline constexpr int64_t kMostGap = 1 << 20;

inline bool spread_is_far(const TensorLayout& layout) { return layout.spread > kMostGap; }

// A spread that 31 bits cannot hold; what is left of twice as much in 32 bits is not always 0, or
// aligned, and may lie far from every row.
inline int64_t draw_far_spread(Rng& rng) {
  return (int64_t{1} << 31) + rng.pick<int64_t>({0, 1 << 20, (1 << 20) + 1});
}

}  // namespace attnfuzz
