// Chooses the rows of a large problem that are judged, if judging all costs too much.
//
// The choice depends only on the problem's shape, the lengths of packed entries and a seed, so a replay judges
// the same rows. Half of the rows lie where kernels break: the first and the last row, and the rows on both
// sides of each query tile's border. The other half is random. Each row of a sample exists: it is no row beyond
// its packed entry.
//
//   for (int64_t row : sampled_rows(problem, host, plan.tile_q, {.limit = 200, .seed = 7})) ...
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "reference/call/row_space.h"
#include "reference/call/sequences.h"

namespace attnfuzz {

// A sample of at most `limit` rows; 0 means all rows, also those beyond their entry.
struct RowSample {
  int64_t limit = 0;
  uint64_t seed = 0;
};

// Row numbers in (b, h, i) order, ascending and without repeats. `host`: with cu_q in host memory.
std::vector<int64_t> sampled_rows(const attn_problem& problem, const attn_tensors& host, int64_t tile_q,
                                  RowSample sample);

// The same for rows of keys or of queries: `entries` says how many of them each batch entry has.
std::vector<int64_t> sampled_rows(const RowSpace& space, const EntryRows& entries, int64_t tile,
                                  RowSample sample);

// The number of rows that exist.
int64_t rows_present(const RowSpace& space, const EntryRows& entries);

}  // namespace attnfuzz
