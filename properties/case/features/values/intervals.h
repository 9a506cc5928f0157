// The length of a fill's intervals (FillKind::kIntervals, kLevels). Kernels divide keys by tiles, splits
// and pages. A wrong weight of such a part shows if an interval ends with it.
#pragma once

#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {

// Rows of an interval: one to three tiles, a split, half or a third of the keys, a page, or any number.
inline uint64_t draw_interval(const DrawContext& context, const Problem& p) {
  Rng& rng = context.rng;
  const int64_t keys = std::max<int64_t>(p.seq_k, 1);
  const auto part = [keys](int64_t of) { return (keys + of - 1) / std::max<int64_t>(of, 1); };
  switch (rng.range(0, 4)) {
    case 0:
      return static_cast<uint64_t>(context.tile_k * rng.range(1, 3));
    case 1:
      return static_cast<uint64_t>(part(p.num_splits > 1 ? p.num_splits : rng.range(2, 3)));
    case 2:
      return rng.pick<uint64_t>({16, 32, 64, 128, 256});
    case 3:
      return static_cast<uint64_t>(rng.range(1, std::min<int64_t>(keys, 64)));
    default:
      return static_cast<uint64_t>(rng.range(1, keys));
  }
}

}  // namespace attnfuzz::feature
