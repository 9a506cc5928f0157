// The value of one cell of a picture: the share of visible pairs, or the largest error/bound.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/data/tiles.h"
#include "properties/explain/picture.h"
#include "reference/oracle.h"

namespace attnfuzz {

// 0 to 1. A large cell is sampled at 16 x 16 pairs, including its corners.
double visible_share(const VisibilityCache& visible, const Cell& cell);

// The largest error/bound of the main output in the cell. The cell's rows count from `first_row` of the reference.
// Infinity: a value is no number, or none is due. -1: the reference judged no row of the cell.
double worst_ratio(const Reference& reference, const std::vector<float>& got, int64_t first_row,
                   const Cell& cell);

// The first (batch entry, head) with an element of the main output outside its bound; the very first head if there is
// none.
struct Head {
  int64_t b = 0, h = 0;
};
Head first_failing_head(const Problem& p, const Reference& reference, const std::vector<float>& got);

}  // namespace attnfuzz
