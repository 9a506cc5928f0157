// Rows on their way through a block: what row_scores(), walk_tiles(), round_p() and begin_mean() hold on the
// host. A block has a team of up to kTeam rows at once, of one batch entry and kv head: what it reads of a key
// or a value is read and converted for all of them. Single numbers lie in shared memory; those of each key, and
// one Tile a KV tile, too where there is room, otherwise in scratch.
//
// Keys of a team are those that position allows any of its rows, in their order, numbered from 0. A row sees of
// them [lo, hi), but for what a mask or a bias hides.
#pragma once

#include "reference/cuda/block.cuh"
#include "reference/rows/row_terms.h"

namespace attnfuzz::cuda {

struct alignas(16) Pair {
  double a, b;
};

// A KV tile in the order of work: of all keys of a team.
struct Span {
  int32_t begin, end;
  int64_t split;
};

// And of what a row sees: n keys of [begin, end). See TileRun.
struct Tile {
  int32_t begin, end, n;
  int64_t split;
  Maximum maximum;  // of its own scores
  double max, uncertain, rescales, split_max, split_uncertain;
  double sum;     // of its weights
  double cost;    // g_t
  double factor;  // A_t / l
  double phi;
};

// Whether tiles are looked at one by one.
__host__ __device__ inline bool walks(const ErrorNumbers& model) {
  return model.max_rule != ATTN_MAX_UNKNOWN || model.sum_lanes > 0;
}
// So many keys in a row lie in at most so many tiles.
__host__ __device__ inline int64_t tiles_of(const ErrorNumbers& model, int64_t keys) {
  return walks(model) ? (keys + model.tile_k - 1) / model.tile_k + 1 : 0;
}

// An allowance that no key has.
inline constexpr double kHidden = -1;

// What a row may see in its query, keys and biases.
inline constexpr unsigned kSeesNaN = 1, kSeesInfinity = 2;

// How the columns of a row are found.
enum class Way : uint8_t {
  kDone,   // they are: the same is due of all
  kKnown,  // P is known
  kPlain,  // it is not
  kHull,   // nothing is
};

struct Row {
  // One number, or two, a key of the team.
  Pair* product;   // x_j and err_j; then what v_j and |v_j| are multiplied by, 0 of keys that are not seen
  Pair* part;      // delta_j and sum |q_t k_jt|; then w_j and w_j rho_j, 0 likewise
  double* weight;  // e^(x_j - m); below 0: the key is not seen
  Tile* tile;

  int lo, hi, n;    // it sees n keys
  int first, last;  // and these two of them
  double q_norm, q_most;
  bool q_below_least, q_below_flushed;
  unsigned impure;     // kSeesNaN, kSeesInfinity
  bool nan, infinite;  // is due of all of it; anything is
  Way way;
  unsigned unbounded;  // not 0: a column has no finite bound by `way`
  double shift;        // added to all scores, exactly; the rest is said of what is left of them (absorbed())
  double m, least, largest_delta, largest_error, largest_absolute, misplaced;
  double largest;  // of e_j
  double l, lam, rho_w, charges, lost, denominator;
  double T, sum_gamma, merge_constant, merge_slope, costs;
  double slope, constant;  // of e_j
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
  int count;       // of rows
  int keys;        // of all of them
  int tiles;       // that they lie in; 0: nobody asks
  int32_t first;   // the position of key 0
  int64_t stride;  // from a row's numbers of each key to the next row's
  Span* span;
  const void* v;  // of key 0
};

// Whether a mask or a bias may hide keys.
__host__ __device__ inline bool has_holes(const RowsInput& in) {
  return in.mask != nullptr || in.bias_dtype != ATTN_NONE;
}

// That a team's rows see together, at most.
__host__ __device__ inline int64_t most_together(const RowsInput& in, int rows) {
  return (int64_t{rows > 1 ? in.keys : in.most_keys} + 1) / 2 * 2;
}

// `memory`: of bytes_a_team(). One thread.
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
