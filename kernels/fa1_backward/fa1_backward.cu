// The backward pass of attention (ATTN_FEATURE_BACKWARD): dQ, dK and dV from Q, K, V, dO and a forward pass's O
// and LSE. README.md is the manual, and lists the kernels. This file has the plain way, which computes in fp32
// throughout, the plan and the launches. mma.h and walks.h have the two ways on tensor cores.
#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/fa1_backward/walks.h"
#include "kernels/fa1_backward/dsink.h"
#include "kernels/fa1_backward/make_params.h"
#include "kernels/fa1_backward/mma.h"
#include "kernels/fa1_backward/tiles.h"
#include "kernels/forward/all_formats.h"
#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

namespace attn::backward {
namespace {

template <class T>
__global__ void delta_kernel(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= f.batch * f.heads_q * f.seq_q) return;  // the whole warp returns
  const int64_t i = row % f.seq_q, h = row / f.seq_q % f.heads_q, b = row / f.seq_q / f.heads_q;
  const Rows rows = rows_of(f, b);
  if (i >= rows.queries) return;  // the whole warp returns
  const int64_t stored = rows.first_query + i;
  const T *o = f.o.at<T>(b, h, stored), *dout = p.dout.at<T>(b, h, stored);
  float sum = 0;
  for (int column = lane_id(); column < f.dim_v; column += 32)
    sum = fma(load(dout + column * p.dout.stride[3]), load(o + column * f.o.stride[3]), sum);
  sum = warp_sum(sum);
  if (p.dlse.data != nullptr) sum -= *p.dlse.at<float>(b, h, stored);
  if (lane_id() == 0) p.delta[row] = sum;
}

// A thread's part of a row of a result: columns first(), first() + kThreadsOfRow, ...
template <int D>
struct RowSum {
  static constexpr int kColumns = D / kThreadsOfRow;
  float sum[kColumns];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) sum[n] = 0;
  }
  __device__ static int first() { return thread_id() % kThreadsOfRow; }
  // Adds factor times a row of a tile.
  __device__ void add(float factor, const float* row, int dim) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = first() + n * kThreadsOfRow;
      if (column < dim) sum[n] = fma(factor, row[column], sum[n]);
    }
  }
  template <class T>
  __device__ void write(T* to, int64_t stride, float scale, int dim) const {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const int column = first() + n * kThreadsOfRow;
      if (column < dim) store(to + column * stride, sum[n] * scale);
    }
  }
};

template <class T, int D>
__global__ void dkdv_kernel(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  SharedArena arena;
  const Tiles<D> tiles(arena);
  const auto [b, g, first_key] = place(p.heads_kv, f.seq_k, kTile);
  const Rows rows = rows_of(f, b);
  if (first_key >= rows.stored_keys) return;
  const int key = thread_id() / kThreadsOfRow;
  load_rows<T, D>(tiles.k, f.k, b, g, rows.first_key, first_key, rows.keys, f.dim_qk);
  load_rows<T, D>(tiles.v, f.v, b, g, rows.first_key, first_key, rows.keys, f.dim_v);

  RowSum<D> dk, dv;
  dk.clear();
  dv.clear();
  for (int64_t h = g * f.group; h < (g + 1) * f.group; ++h) {
    for (int64_t first_query = 0; first_query < rows.queries; first_query += kTile) {
      if (!meet(f, rows, first_query, kTile, first_key, kTile)) continue;
      load_queries<T, D>(p, tiles, rows, b, h, first_query);
      cta_sync();
      compute_pairs<T, D>(p, tiles, rows, b, h, first_query, first_key);
      cta_sync();
      for (int query = 0; query < kTile; ++query) {
        const int at = query * kPitch + key;
        if (tiles.seen[at] == 0) continue;
        dk.add(tiles.a[at], tiles.q + query * Tiles<D>::kRow, f.dim_qk);
        dv.add(tiles.p[at], tiles.dout + query * Tiles<D>::kRow, f.dim_v);
      }
      cta_sync();
    }
  }
  if (first_key + key >= rows.stored_keys) return;
  const int64_t stored = rows.first_key + first_key + key;
  dk.write(p.dk.at<T>(b, g, stored), p.dk.stride[3], f.scale, f.dim_qk);
  dv.write(p.dv.at<T>(b, g, stored), p.dv.stride[3], 1.0f, f.dim_v);
}

template <class T, int D>
__global__ void dq_kernel(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  SharedArena arena;
  const Tiles<D> tiles(arena);
  const auto [b, h, first_query] = place(f.heads_q, f.seq_q, kTile);
  const Rows rows = rows_of(f, b);
  if (first_query >= rows.queries) return;
  const int64_t g = h / f.group;
  const int query = thread_id() / kThreadsOfRow;
  load_queries<T, D>(p, tiles, rows, b, h, first_query);

  RowSum<D> dq;
  dq.clear();
  for (int64_t first_key = 0; first_key < rows.keys; first_key += kTile) {
    if (!meet(f, rows, first_query, kTile, first_key, kTile)) continue;
    load_rows<T, D>(tiles.k, f.k, b, g, rows.first_key, first_key, rows.keys, f.dim_qk);
    load_rows<T, D>(tiles.v, f.v, b, g, rows.first_key, first_key, rows.keys, f.dim_v);
    cta_sync();
    compute_pairs<T, D>(p, tiles, rows, b, h, first_query, first_key);
    cta_sync();
    for (int key = 0; key < kTile; ++key) {
      const int at = query * kPitch + key;
      if (tiles.seen[at] != 0) dq.add(tiles.a[at], tiles.k + key * Tiles<D>::kRow, f.dim_qk);
    }
    cta_sync();
  }
  if (first_query + query >= rows.queries) return;
  dq.write(p.dq.at<T>(b, h, rows.first_query + first_query + query), p.dq.stride[3], f.scale, f.dim_qk);
}

__device__ inline void store_as(int32_t dtype, void* data, int64_t at, float value) {
  if (dtype == ATTN_F16) return store(static_cast<F16*>(data) + at, value);
  if (dtype == ATTN_BF16) return store(static_cast<BF16*>(data) + at, value);
  static_cast<float*>(data)[at] = value;
}

// One block of dbias adds up batch entries [b, b_end), heads [h, h_end) and queries [first_query, end_query).
struct BiasPlace {
  int64_t b, b_end, h, h_end, first_query, end_query, first_key;
};
__device__ inline BiasPlace bias_place(const Params& p) {
  const ForwardParams& f = p.forward;
  const int64_t *stride = p.dbias.stride, key_tiles = (f.seq_k + kTile - 1) / kTile;
  const int64_t query_tiles = stride[2] == 0 ? 1 : (f.seq_q + kTile - 1) / kTile;
  const int64_t heads = stride[1] == 0 ? 1 : f.heads_q;
  int64_t block = blockIdx.x;
  BiasPlace at = {};
  at.first_key = block % key_tiles * kTile, block /= key_tiles;
  at.first_query = block % query_tiles * kTile, block /= query_tiles;
  at.end_query = stride[2] == 0 ? f.seq_q : at.first_query + kTile;
  at.h = block % heads, at.b = block / heads;
  at.h_end = stride[1] == 0 ? f.heads_q : at.h + 1;
  at.b_end = stride[0] == 0 ? f.batch : at.b + 1;
  return at;
}

// Each thread owns two pairs of a tile and adds up their dS over all tiles that share the stored elements. If
// dbias is summed over queries, the sums of the tile's 16 queries are added up at the end.
template <class T, int D>
__global__ void dbias_kernel(const __grid_constant__ Params p) {
  const ForwardParams& f = p.forward;
  SharedArena arena;
  const Tiles<D> tiles(arena);
  const BiasPlace at = bias_place(p);
  constexpr int kPairs = kTile * kTile / kThreads;
  float sum[kPairs] = {};
  for (int64_t b = at.b; b < at.b_end; ++b) {
    const Rows rows = rows_of(f, b);
    for (int64_t h = at.h; h < at.h_end; ++h) {
      for (int64_t first_query = at.first_query; first_query < at.end_query; first_query += kTile) {
        if (!meet(f, rows, first_query, kTile, at.first_key, kTile)) continue;
        load_queries<T, D>(p, tiles, rows, b, h, first_query);
        load_rows<T, D>(tiles.k, f.k, b, h / f.group, rows.first_key, at.first_key, rows.keys, f.dim_qk);
        load_rows<T, D>(tiles.v, f.v, b, h / f.group, rows.first_key, at.first_key, rows.keys, f.dim_v);
        cta_sync();
        compute_pairs<T, D, Of::kBias>(p, tiles, rows, b, h, first_query, at.first_key);
        cta_sync();
        for (int n = 0; n < kPairs; ++n) {
          const int pair = thread_id() + n * kThreads, place = pair / kTile * kPitch + pair % kTile;
          if (tiles.seen[place] != 0) sum[n] += tiles.a[place];
        }
        cta_sync();
      }
    }
  }
  const bool summed = p.dbias.stride[2] == 0;
  for (int n = 0; n < kPairs; ++n) {
    const int pair = thread_id() + n * kThreads;
    tiles.a[pair / kTile * kPitch + pair % kTile] = sum[n];
  }
  cta_sync();
  for (int pair = thread_id(); pair < (summed ? kTile : kTile * kTile); pair += kThreads) {
    const int query = pair / kTile, key = pair % kTile;
    float value = tiles.a[query * kPitch + key];
    for (int other = 1; summed && other < kTile; ++other) value += tiles.a[other * kPitch + key];
    const int64_t i = at.first_query + query, j = at.first_key + key;
    if (i >= f.seq_q || j >= f.seq_k) continue;
    const int64_t* stride = p.dbias.stride;
    store_as(f.bias_dtype, p.dbias.data, at.b * stride[0] + at.h * stride[1] + i * stride[2] + j * stride[3],
             value);
  }
}

// The kernels of one way, the rows of their tiles, and the shared memory of a block.
struct Way {
  const char* path;
  int64_t own, walk;  // rows of a block's results; rows of the tiles that the block walks over
  size_t bytes;       // of dkdv and of dq
  bool tensor_cores;
  void (*delta)(Params);
  void (*dkdv)(Params);
  void (*dq)(Params);
  void (*dbias)(Params);
  size_t dbias_bytes;
};

template <class T, int D>
constexpr Way plain_way(const char* path) {
  return {path,  kTile, kTile, Tiles<D>::bytes(), false, delta_kernel<T>, dkdv_kernel<T, D>, dq_kernel<T, D>,
          dbias_kernel<T, D>, Tiles<D>::bytes()};
}
template <class T, int D>
constexpr Way mma_way(const char* path) {
  return {path, kOwn, kWalk, MmaTiles<T, D>::bytes(), true, delta_kernel<T>, dkdv_mma<T, D>, dq_mma<T, D>,
          dbias_kernel<T, D>, Tiles<D>::bytes()};
}

// If the fast way is compiled, it is the first variant. If a variant cannot take a problem, the next one does.
template <bool kFast>
constexpr auto variants() {
  if constexpr (kFast) return std::array{"cp.async", "mma", "plain"};
  else return std::array{"mma", "plain"};
}
constexpr int32_t kPlain = kWalks ? 3 : 2;

template <class T>
Way way_of(int64_t columns, bool mma) {
  if constexpr (!std::is_same_v<T, float>) {
    if (mma) return columns <= 64 ? mma_way<T, 64>("mma 64x32 d64") : mma_way<T, 128>("mma 64x32 d128");
  }
  return columns <= 64    ? plain_way<T, 64>("16x16 d64")
         : columns <= 128 ? plain_way<T, 128>("16x16 d128")
                          : plain_way<T, 256>("16x16 d256");
}

// True if tensor cores can take the problem. All variants take other problems the plain way.
bool takes_mma(const attn_problem& p) { return p.dtype != ATTN_F32 && std::max(p.dim_qk, p.dim_v) <= 128; }

Way way_of(const Call& call) {
  const attn_problem& p = call.problem;
  const int64_t columns = std::max(p.dim_qk, p.dim_v);
  const bool mma = takes_mma(p) && call.env.variant != kPlain;
  return p.dtype == ATTN_F32   ? way_of<float>(columns, mma)
         : p.dtype == ATTN_F16 ? way_of<F16>(columns, mma)
                               : way_of<BF16>(columns, mma);
}

// Queries of all heads, tiles of queries of all heads, tiles of keys of all KV heads, and tiles of dbias. A
// count is negative if it does not fit a grid.
struct Counts {
  int64_t rows, query_tiles, key_tiles, bias_tiles = 0;
  Counts(const attn_problem& p, const attn_tensors& t, int64_t tile)
      : rows(product_within(p.batch, p.heads_q, p.seq_q, kMaxBlocks * kWarps)),
        query_tiles(product_within(p.batch, p.heads_q, ceil_div(p.seq_q, tile), kMaxBlocks)),
        key_tiles(product_within(p.batch, p.heads_kv, ceil_div(p.seq_k, tile), kMaxBlocks)) {
    if ((p.features & ATTN_FEATURE_DBIAS) == 0 || rows == 0) return;
    const attn_tensor dbias = strided(p, t).dbias;
    const int64_t* stride = dbias.stride;
    const int64_t heads =
        product_within(stride[0] == 0 ? 1 : p.batch, stride[1] == 0 ? 1 : p.heads_q, 1, kMaxBlocks);
    bias_tiles = heads < 0 ? -1 : product_within(heads, stride[2] == 0 ? 1 : ceil_div(p.seq_q, kTile),
                                                 ceil_div(p.seq_k, kTile), kMaxBlocks);
  }
  bool fit() const { return rows >= 0 && query_tiles >= 0 && key_tiles >= 0 && bias_tiles >= 0; }
};

// True if the fast way runs.
template <bool kFast>
bool takes_walks(const Call& call) {
  if constexpr (kFast) return call.env.variant <= 1 && walks_refuse<false>(call) == nullptr;
  return false;
}

struct Backward {
  static constexpr const char* kName = "fa1_backward";
  static constexpr const char* kDescription = "the gradients of attention, in a fixed order";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr std::array kVariants = variants<kWalks>();
  static constexpr uint64_t kFeatures = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 |
                                        ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_SINK |
                                        ATTN_FEATURE_DSINK | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 |
                                        ATTN_FEATURE_KEY_STEP;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if constexpr (kWalks) {
      if (takes_walks<kWalks>(call)) {
        static_assert(Grad64::kKeys.keys() == Grad128::kKeys.keys());
        describe_walks(call, "cp.async", Grad64::kKeys.keys(), KeySpec::kQueries, plan);
        plan->workspace_bytes = walk_bytes(call, false);
        return {};
      }
    }
    const Way way = way_of(call);
    const Counts counts(p, call.tensors, way.own);
    if (!counts.fit()) return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: the problem is too large"};
    const size_t bytes =
        (p.features & ATTN_FEATURE_DBIAS) != 0 ? std::max(way.bytes, way.dbias_bytes) : way.bytes;
    if (call.env.shared_memory_limit < static_cast<int64_t>(bytes))
      return {ATTN_UNSUPPORTED, "needs " + std::to_string(bytes) + " bytes of shared memory a block"};
    if (way.tensor_cores && call.env.compute_capability < 80)
      return {ATTN_UNSUPPORTED, "needs compute capability 8.0 or later (mma.m16n8k16)"};
    *plan = plain_plan(way.path, way.walk, p.seq_k);
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->tanh_class = ATTN_TANH_TANHF;
    plan->ds_format = plan->head_format = ATTN_FORMAT_F32;
    if (way.tensor_cores) {
      plan->accumulator = ATTN_ACC_TENSOR;
      plan->p_format = plan->ds_format = ATTN_FORMAT_OF_INPUT;
      plan->p_order = ATTN_P_NORMALISED;
    }
    plan->dq_adds = plan->dkv_adds = 1;
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = !way.tensor_cores;
    plan->workspace_bytes = static_cast<uint64_t>(counts.rows) * sizeof(float);
    plan->workspace_align = sizeof(float);
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const Params p = make_params(call);
    if constexpr (kWalks) {
      if (takes_walks<kWalks>(call)) {
        const WalkParams walk = walk_params(call, p, false);
        return finish_walks(call, walk, launch_walks<false>(call, walk));
      }
    }
    const Way way = way_of(call);
    const Counts counts(call.problem, call.tensors, way.own);
    const bool sinks = (call.problem.features & ATTN_FEATURE_DSINK) != 0;
    const auto start = [&](void (*kernel)(Params), int64_t blocks, size_t bytes) {
      if (blocks == 0) return ATTN_OK;
      return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), bytes, &call.env, p);
    };
    attn_status status = start(way.delta, ceil_div(counts.rows, kWarps), 0);
    if (status == ATTN_OK) status = start(way.dkdv, counts.key_tiles, way.bytes);
    if (status == ATTN_OK) status = start(way.dq, counts.query_tiles, way.bytes);
    if (status == ATTN_OK) status = start(way.dbias, counts.bias_tiles, way.dbias_bytes);
    if (status == ATTN_OK && sinks) status = start(dsink_kernel, ceil_div(call.problem.heads_q, kWarps), 0);
    return status;
  }
};

const attn_kernel kKernel = plug_in<Backward>();

}  // namespace
}  // namespace attn::backward

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::backward::kKernel : nullptr; }
