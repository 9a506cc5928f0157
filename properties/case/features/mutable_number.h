// How a mutation moves a number of a case.
#pragma once

#include "properties/case/dice.h"

namespace attnfuzz {

inline constexpr int64_t kLargestNumber = int64_t{1} << 31;

// Doubled, halved, moved by one or a tile, on to a tile's border or equal to another.
int64_t moved(int64_t now, int64_t least, int64_t tile, int64_t other, Dice& dice);

}  // namespace attnfuzz
