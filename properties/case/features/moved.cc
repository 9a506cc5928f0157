// How a mutation moves a number of a case.
#include <algorithm>

#include "properties/case/feature.h"

namespace attnfuzz {
namespace {

int64_t anywhere(int64_t value, int64_t tile, int64_t other, Dice& dice) {
  enum { kMore, kLess, kDouble, kHalf, kBorder, kMoreTiles, kLessTiles, kOther };
  switch (dice.weighted<int>({{12, kMore},
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
      // The nearest border, or one of the first, and just beside it.
      return (dice.coin() ? (value + tile / 2) / tile : dice.range(1, 3)) * tile + dice.range(-1, 1);
    case kMoreTiles:
      return value < kLargestNumber ? value + tile : value;
    case kLessTiles:
      return value - tile;
    default:
      return other + dice.range(-1, 1);
  }
}

}  // namespace

int64_t moved(int64_t now, int64_t least, int64_t tile, int64_t other, Dice& dice) {
  // A border below the least is not one of its own.
  return std::max(anywhere(now, std::max<int64_t>(tile, 1), other, dice), least);
}

}  // namespace attnfuzz
