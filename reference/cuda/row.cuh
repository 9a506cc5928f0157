// One row on its way through a group: what row_scores(), walk_tiles(), round_p() and
// begin_mean() hold on the host. Single numbers lie in shared memory; one number a key, and
// one Tile a KV tile, in the group's scratch.
#pragma once

#include "reference/cuda/block.cuh"
#include "reference/row_terms.h"

namespace attnfuzz::cuda {

// A KV tile in the order of work; begin == end: the row sees none of its keys. See TileRun.
struct Tile {
  int32_t begin, end;  // of Row::key
  int64_t split;
  Maximum maximum;  // of its own scores
  double max, uncertain, rescales, split_max, split_uncertain;
  double sum;     // of its weights
  double cost;    // g_t
  double factor;  // A_t / l
  double phi;
  bool last;  // of its split
};

// Whether tiles are looked at one by one.
__host__ __device__ inline bool walks(const ErrorNumbers& model) {
  return model.max_rule != ATTN_MAX_UNKNOWN || model.sum_lanes > 0;
}
// A row over keys first..last lies in at most so many tiles.
__host__ __device__ inline int64_t tiles_of(const ErrorNumbers& model, int64_t keys) {
  return walks(model) ? (keys + model.tile_k - 1) / model.tile_k + 1 : 0;
}

struct Row {
  // In scratch, by index in the list of visible keys.
  int32_t* key;
  double *x, *err, *delta, *absolute;
  double* weight;           // e^(x - m), then w_j
  double* error;            // w_j rho_j
  double *centre, *charge;  // RoundedP's, then what is charged of |v_j|
  Tile* tile;

  int n, tiles;
  const uint16_t *keys, *values;  // of the group
  double q_norm, q_most;
  bool q_below_least, q_below_flushed;
  double m, largest_delta, largest_error, misplaced;
  double l, lam, rho_w, lost, denominator;
  double T, sum_gamma, merge_constant, merge_slope, costs;
  double last_uncertain;  // of the last tile's maximum
  double common;
  bool informative, known, overflowing;
  MeanTerms terms;
  Stored stored;
  double lse, lse_bound;
};

inline constexpr int kDoublesAKey = 8;  // x ... charge

// `memory`: of one group.
__device__ inline void carve(const RowsInput& in, std::byte* memory, Row& row) {
  const int64_t n = (in.most_keys + 1) / 2 * 2;
  double* numbers = reinterpret_cast<double*>(memory);
  double** const all[] = {&row.x,      &row.err,   &row.delta,  &row.absolute,
                          &row.weight, &row.error, &row.centre, &row.charge};
  for (double** one : all) {
    *one = numbers;
    numbers += n;
  }
  row.tile = reinterpret_cast<Tile*>(numbers);
  row.key = reinterpret_cast<int32_t*>(row.tile + tiles_of(in.model, in.most_keys));
}

// What is not finite counts as 0: it is marked apart.
template <bool kBf16>
__device__ inline double value_at(const RowsInput& in, const Row& row, int k, int c) {
  const double v = number<kBf16>(row.values[static_cast<int64_t>(row.key[k]) * in.stride_v + c]);
  return isfinite(v) ? v : 0;
}

}  // namespace attnfuzz::cuda
