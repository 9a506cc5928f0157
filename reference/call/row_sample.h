// Chooses the rows of a large problem that are judged, if judging all costs too much.
//
// The choice depends only on the problem's shape and a seed, so a replay judges the same rows. Half of the
// rows lie where kernels break: the first and the last row, and the rows on both sides of each query tile's
// border. The other half is random.
//
//   for (int64_t row : sampled_rows(problem, plan.tile_q, {.limit = 200, .seed = 7})) ...
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz {

// A sample of at most `limit` rows; 0 means all rows.
struct RowSample {
  int64_t limit = 0;
  uint64_t seed = 0;
};

// Row numbers in (b, h, i) order, ascending and without repeats.
std::vector<int64_t> sampled_rows(const attn_problem& problem, int64_t tile_q, RowSample sample);

}  // namespace attnfuzz
