// Parameters of the kernels of the backward pass; tiles of the plain way in shared memory; and the code that
// computes P and dA of all pairs of a tile of queries and a tile of keys.
//
//   Tiles<D> tiles(arena);
//   const Rows rows = rows_of(p.forward, b);
//   load_rows<T, D>(tiles.k, f.k, b, g, rows.first_key, first_key, rows.keys, f.dim_qk);  // f: p.forward; then V
//   load_queries<T, D>(p, tiles, rows, b, h, first_query);
//   cta_sync();
//   compute_pairs<T, D>(p, tiles, rows, b, h, first_query, first_key);      // tiles.p, tiles.a, tiles.seen
//   cta_sync();
#pragma once

#include "kernels/forward/params.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn::backward {

inline constexpr int kTile = 16;  // queries, and keys, of a tile
inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kThreadsOfRow = kThreads / kTile;  // threads that share a row of a result
inline constexpr int kPitch = kTile + 1;                // from row to row of a tile of pairs

struct Params {
  ForwardParams forward;  // sizes, Q, K, V, O, LSE, bias, mask, lengths and window
  Strided dout, dq, dk, dv;
  Strided dlse;   // data is nullptr if there is none
  Strided dbias;  // a stride of 0 for each dimension that is summed
  Strided dsink;
  int64_t heads_kv;
  float inverse_cap;  // 1 / softcap; 0: there is no cap
  float* delta;       // D of each row of (b, h, i), dense
  int64_t delta_rows;  // rows of a head in delta
};

// The rows of a batch entry, and its number of rows of dK and dV: key lengths do not shorten dK and dV.
struct Rows : Entry {
  int64_t stored_keys;
};
__device__ inline Rows rows_of(const ForwardParams& f, int64_t b) {
  Rows rows = {entry_of(f, b), f.seq_k};
  if (f.ragged.cu_k != nullptr) rows.stored_keys = index_at(f, f.ragged.cu_k, b + 1) - rows.first_key;
  return rows;
}

__device__ inline float load(const F16* from) { return to_float(*from); }
__device__ inline float load(const BF16* from) { return to_float(*from); }
__device__ inline float load(const float* from) { return *from; }

template <class T>
__device__ void store(T* to, float value) {
  *to = from_float<T>(value);
}
__device__ inline void store(float* to, float value) { *to = value; }

__device__ inline float load_as(int32_t dtype, const void* data, int64_t at) {
  if (dtype == ATTN_F16) return to_float(static_cast<const F16*>(data)[at]);
  if (dtype == ATTN_BF16) return to_float(static_cast<const BF16*>(data)[at]);
  return static_cast<const float*>(data)[at];
}

// Rows have D columns of fp32 and one more, so that the elements of a column lie in different banks.
template <int D>
struct Tiles {
  static constexpr int kRow = D + 1;
  float *q, *dout, *k, *v;  // kTile rows of kRow
  float *p, *a;             // [query * kPitch + key]
  float *lse, *delta;       // of the queries
  int* seen;                // indexed as p: not 0 if the query sees the key

  __device__ explicit Tiles(SharedArena& arena)
      : q(arena.carve<float>(kTile * kRow)),
        dout(arena.carve<float>(kTile * kRow)),
        k(arena.carve<float>(kTile * kRow)),
        v(arena.carve<float>(kTile * kRow)),
        p(arena.carve<float>(kTile * kPitch)),
        a(arena.carve<float>(kTile * kPitch)),
        lse(arena.carve<float>(kTile)),
        delta(arena.carve<float>(kTile)),
        seen(arena.carve<int>(kTile * kPitch)) {}

  static constexpr size_t bytes() {
    return 4 * shared_bytes<float>(kTile * kRow) + 2 * shared_bytes<float>(kTile * kPitch) +
           2 * shared_bytes<float>(kTile) + shared_bytes<int>(kTile * kPitch);
  }
};

// Loads rows first..first + kTile - 1 of a (batch, head), converted to fp32. Row 0 is stored at row `base` of
// the tensor. Rows from `last` on become 0.
template <class T, int D>
__device__ void load_rows(float* to, const Strided& from, int64_t b, int64_t h, int64_t base, int64_t first,
                          int64_t last, int dim) {
  for (int row = warp_id(); row < kTile; row += kWarps) {
    const bool there = first + row < last;
    const T* source = from.at<T>(b, h, there ? base + first + row : 0);
    for (int column = lane_id(); column < dim; column += 32)
      to[row * Tiles<D>::kRow + column] = there ? load(source + column * from.stride[3]) : 0.0f;
  }
}

// Loads Q, dO, LSE and D of a tile of queries.
template <class T, int D>
__device__ void load_queries(const Params& p, const Tiles<D>& tiles, const Rows& rows, int64_t b, int64_t h,
                             int64_t first) {
  const ForwardParams& f = p.forward;
  load_rows<T, D>(tiles.q, f.q, b, h, rows.first_query, first, rows.queries, f.dim_qk);
  load_rows<T, D>(tiles.dout, p.dout, b, h, rows.first_query, first, rows.queries, f.dim_v);
  const int row = thread_id();
  if (row >= kTile) return;
  const bool there = first + row < rows.queries;
  tiles.lse[row] = there ? *f.lse.at<float>(b, h, rows.first_query + first + row) : 0.0f;
  tiles.delta[row] = there ? p.delta[(b * f.heads_q + h) * f.seq_q + first + row] : 0.0f;
}

// True if query i sees key j; then *bias is the bias of the pair, 0 if the problem has none.
__device__ inline bool sees(const ForwardParams& f, const Rows& rows, int64_t b, int64_t h, int64_t i, int64_t j,
                            float* bias) {
  *bias = 0.0f;
  if (i >= rows.queries) return false;
  const KeyRange range = visible_range(f, rows, i);
  if (j < range.begin || j >= range.end) return false;
  if (f.has_mask && *(f.mask.at<uint8_t>(b, h, i) + j * f.mask.stride[3]) == 0) return false;
  if (f.bias_dtype == ATTN_NONE) return true;
  const int64_t at = b * f.bias.stride[0] + h * f.bias.stride[1] + i * f.bias.stride[2] + j * f.bias.stride[3];
  *bias = load_as(f.bias_dtype, f.bias.data, at);
  return *bias != neg_inf();
}

struct Pair {
  float p, s, a;
};

// P, dS and dA of a query that sees a key, from q.k and dO.v. dA is dS times the slope of the soft cap.
__device__ inline Pair pair_of(const Params& p, float product, float gradient, float bias, float lse,
                               float delta) {
  float score = product * p.forward.scale, slope = 1.0f;
  if (p.inverse_cap != 0) {
    const float t = tanh(score * p.inverse_cap);
    score = p.forward.softcap * t;
    slope = fma(-t, t, 1.0f);
  }
  score += bias;
  const float weight = ex2((score - lse) * kLog2e);
  const float s = weight * (gradient - delta);
  return {weight, s, s * slope};
}

// The rows of a result that a block of a one-dimensional grid computes. Each head has `rows` rows, each block
// `tile` of them.
struct Place {
  int64_t b, h, first;
};
__device__ inline Place place(int64_t heads, int64_t rows, int tile) {
  const int64_t block = blockIdx.x, tiles = (rows + tile - 1) / tile;
  return {block / tiles / heads, block / tiles % heads, block % tiles * tile};
}

// True if some query of one tile may see some key of another by their positions. Mask and bias are ignored.
__device__ inline bool meet(const ForwardParams& f, const Rows& rows, int64_t first_query, int queries,
                            int64_t first_key, int keys) {
  if (first_query >= rows.queries) return false;
  const int64_t end = first_query + queries < rows.queries ? first_query + queries : rows.queries;
  const KeyRange low = visible_range(f, rows, first_query), high = visible_range(f, rows, end - 1);
  return high.end > first_key && low.begin < first_key + keys;
}

enum class Of { kProducts, kBias };

// Computes P and dA of all pairs of a tile. With Of::kBias, tiles.a gets dS instead of dA.
template <class T, int D, Of kOf = Of::kProducts>
__device__ void compute_pairs(const Params& p, const Tiles<D>& tiles, const Rows& rows, int64_t b, int64_t h,
                              int64_t first_query, int64_t first_key) {
  const ForwardParams& f = p.forward;
  for (int pair = thread_id(); pair < kTile * kTile; pair += kThreads) {
    const int query = pair / kTile, key = pair % kTile, at = query * kPitch + key;
    float bias;
    const bool seen = sees(f, rows, b, h, first_query + query, first_key + key, &bias);
    tiles.seen[at] = seen;
    if (!seen) continue;
    const float *q = tiles.q + query * Tiles<D>::kRow, *k = tiles.k + key * Tiles<D>::kRow;
    const float *dout = tiles.dout + query * Tiles<D>::kRow, *v = tiles.v + key * Tiles<D>::kRow;
    float product = 0, gradient = 0;
    for (int column = 0; column < f.dim_qk; ++column) product = fma(q[column], k[column], product);
    for (int column = 0; column < f.dim_v; ++column) gradient = fma(dout[column], v[column], gradient);
    const Pair of = pair_of(p, product, gradient, bias, tiles.lse[query], tiles.delta[query]);
    tiles.p[at] = of.p;
    tiles.a[at] = kOf == Of::kBias ? of.s : of.a;
  }
}

}  // namespace attn::backward
