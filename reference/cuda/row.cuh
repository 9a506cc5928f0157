// The state of rows in a block: what row_scores(), walk_tiles(), round_p() and begin_mean() hold on the
// host. A block works on a team of up to kTeam rows of one batch entry and KV head, so that each key or
// value is read and converted once for all of them. Single numbers lie in shared memory. Per-key numbers
// and one Tile for each KV tile lie there, too, if there is room, else in scratch.
//
// A team's keys are those that position allows any of its rows, in order, numbered from 0. A row sees [lo,
// hi) of them, except what a mask or a bias hides.
#pragma once

#include "reference/cuda/block.cuh"
#include "reference/rows/row_terms.h"

namespace attnfuzz::cuda {

struct alignas(16) Pair {
  double a, b;
};

// A KV tile in the order of work, over all keys of a team.
struct Span {
  int32_t begin, end;
  int64_t split;
};

// The part of a tile that a row sees: n keys of [begin, end). See TileRun.
struct Tile {
  int32_t begin, end, n;
  int64_t split;
  Maximum maximum;  // of the tile's own scores
  double max, uncertain, rescales, split_max, split_uncertain;
  double sum;     // of the tile's weights
  double cost;    // g_t
  double factor;  // A_t / l
  double phi;
};

// True if tiles are visited one by one.
__host__ __device__ inline bool walks(const ErrorNumbers& model) {
  return model.max_rule != ATTN_MAX_UNKNOWN || model.sum_lanes > 0;
}
// The most tiles in which this many consecutive keys lie.
__host__ __device__ inline int64_t tiles_of(const ErrorNumbers& model, int64_t keys) {
  return walks(model) ? (keys + model.tile_k - 1) / model.tile_k + 1 : 0;
}

__device__ inline bool has_sink(double sink) { return sink != -INFINITY; }

// A score error that no visible key has.
inline constexpr double kHidden = -1;

// Flags: a row sees NaN, or an infinity, in its query, keys or biases.
inline constexpr unsigned kSeesNaN = 1, kSeesInfinity = 2;

// The method by which the columns of a row are computed.
enum class Way : uint8_t {
  kDone,   // nothing remains to do: all columns have the same expectation
  kKnown,  // P is known
  kPlain,  // P is not known
  kHull,   // only the hull is known
};

struct Row {
  // One or two numbers for each key of the team.
  Pair* product;   // x_j and err_j; then the factors of v_j and |v_j|, 0 for hidden keys
  Pair* part;      // delta_j and sum |q_t k_jt|; then w_j and w_j rho_j, 0 for hidden keys
  double* weight;  // e^(x_j - m); below 0: the key is hidden
  Tile* tile;

  int lo, hi, n;    // n: the number of visible keys
  int first, last;  // the first and the last visible key
  double q_norm, q_most;
  bool q_below_least, q_below_flushed;
  unsigned impure;     // kSeesNaN, kSeesInfinity
  bool nan, infinite;  // all columns must be NaN; all may be anything
  Way way;
  unsigned unbounded;  // not 0: a column has no finite bound by `way`
  double sink;         // -infinity: there is none
  double farthest;     // the largest size of a maximum: of the keys, or with the sink
  double sink_unit;    // error of the sink's score relative to the keys' scores, which share it; 0 unless fused
  double shift;        // added to all scores, exactly; the other fields describe the remainder (absorbed())
  double m, least, largest_delta, largest_error, largest_absolute, misplaced;
  double largest;  // largest e_j
  double l, lam, rho_w, charges, lost, denominator;
  double T, sum_gamma, merge_constant, merge_slope, costs;
  double slope, constant;  // coefficients of e_j
  double last_uncertain;   // of the last tile's maximum
  double common;
  double grown;  // partial_growth()
  bool informative, known;
  MeanTerms terms;
  Stored stored;
  KnownCharges known_charges;
  KnownShares known_shares;
  PlainShares plain_shares;
  double lse_bound;
};

struct Team {
  Row row[kTeam];
  int count;       // rows
  int keys;        // keys of all rows
  int tiles;       // tiles of these keys; 0: not needed
  int32_t first;   // position of key 0
  int64_t stride;  // distance between the per-key numbers of two rows
  Span* span;
  const void* v;  // value of key 0
  double* room;   // kRoomAlone bytes if the block has one long row, else null
};

// The parts of a score besides its product: the bias b, and the term t of a slope.
struct Added {
  bool bias, slope;
  double b, t, distance;
};
__device__ inline Added added_by_slope(const RowsInput& in, const RowTask& task, int64_t key) {
  const int64_t away = task.diagonal - key;
  const auto distance = static_cast<double>(away < 0 ? -away : away);
  return {false, in.slopes, 0, -task.slope * distance, distance};
}

// True if a mask or a bias may hide keys.
__host__ __device__ inline bool has_holes(const RowsInput& in) {
  return in.mask != nullptr || in.bias_dtype != ATTN_NONE;
}

// The most keys that a team's rows see together.
__host__ __device__ inline int64_t most_together(const RowsInput& in, int rows) {
  return (int64_t{rows > 1 ? in.keys : in.most_keys} + 1) / 2 * 2;
}

// Divides `memory` (bytes_a_team()) among the team's arrays. Run by one thread.
__device__ inline void carve(const RowsInput& in, int rows, std::byte* memory, Team& team) {
  const int64_t n = team.stride = most_together(in, rows), tiles = tiles_of(in.model, n);
  const auto take = [&]<class T>(T*& to, int64_t count) {
    to = reinterpret_cast<T*>(memory);
    memory += count * static_cast<int64_t>(sizeof(T));
  };
  for (int r = 0; r < rows; ++r) take(team.row[r].product, n);
  for (int r = 0; r < rows; ++r) take(team.row[r].part, n);
  for (int r = 0; r < rows; ++r) take(team.row[r].weight, n);
  for (int r = 0; r < rows; ++r) take(team.row[r].tile, tiles);
  take(team.span, tiles);
}
inline size_t bytes_a_team(const RowsInput& in, int rows) {
  const auto n = static_cast<size_t>(most_together(in, rows)),
             tiles = static_cast<size_t>(tiles_of(in.model, static_cast<int64_t>(n)));
  const size_t bytes =
      static_cast<size_t>(rows) * (n * (2 * sizeof(Pair) + sizeof(double)) + tiles * sizeof(Tile)) +
      tiles * sizeof(Span);
  return (bytes + 127) / 128 * 128;
}

}  // namespace attnfuzz::cuda
