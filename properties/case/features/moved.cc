// The ways in which a mutation changes a number of a case.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz {
namespace {

int64_t anywhere(int64_t value, int64_t tile, int64_t other, Rng& rng) {
  enum { kMore, kLess, kDouble, kHalf, kBorder, kMoreTiles, kLessTiles, kOther };
  switch (rng.weighted<int>({{12, kMore},
                             {12, kLess},
                             {8, kDouble},
                             {8, kHalf},
                             {36, kBorder},
                             {8, kMoreTiles},
                             {8, kLessTiles},
                             {8, kOther}})) {
    case kMore:
      return value < kLargestNumber ? value + 1 : value;
    case kLess:
      return value - 1;
    case kDouble:
      return value < kLargestNumber ? value * 2 : value;
    case kHalf:
      return value / 2;
    case kBorder:
      // On or beside the nearest border, or one of the first.
      return (rng.coin() ? (value + tile / 2) / tile : rng.range(1, 3)) * tile + rng.range(-1, 1);
    case kMoreTiles:
      return value < kLargestNumber ? value + tile : value;
    case kLessTiles:
      return value - tile;
    default:
      return other + rng.range(-1, 1);
  }
}

}  // namespace

int64_t moved(int64_t now, int64_t least, int64_t tile, int64_t other, Rng& rng) {
  // A border below `least` becomes `least`.
  return std::max(anywhere(now, std::max<int64_t>(tile, 1), other, rng), least);
}

}  // namespace attnfuzz
