// Writes key-value caches: appends new keys and values to those of each batch entry (ATTN_FEATURE_APPEND), and
// copies pages of pools (ATTN_FEATURE_COPY_PAGES).
//
// A warp copies a row of one head, in K and in V; its lanes take the columns. Elements are copied as bits.
#include "kernels/forward/all_formats.h"
#include "kernels/forward/params.h"
#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/types.h"
#include "kernels/primitives/warp.h"

namespace attn {
namespace {

constexpr int kWarps = 4;

struct CacheParams {
  Strided k, v;          // of the cache: by entry or page, head, row or slot
  Strided k_new, v_new;  // by entry, head, row
  const void* cu_q;      // nullptr: new rows are dense
  const void* key_lengths;
  const void* table;   // the block table, or the pairs of pages; nullptr: no pages
  int64_t of_entry;    // stride from one row of the table to the next
  bool narrow;         // these arrays hold int32_t
  int64_t heads, capacity, page_size;
  int64_t rows_of_head;  // the most new rows of an entry, or the slots of a page
  int64_t rows;          // over all entries and heads
  int32_t dim_qk, dim_v;
};

__device__ inline int64_t index_at(const CacheParams& p, const void* array, int64_t n) {
  return p.narrow ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// A batch entry or a page, and a row or slot in it.
struct Place {
  int64_t first, row;
};

template <class T>
__device__ void copy_row(const Strided& from, const Place& source, const Strided& to, const Place& target, int64_t h,
                         int32_t columns) {
  const T* const in = from.at<T>(source.first, h, source.row);
  T* const out = to.at<T>(target.first, h, target.row);
  for (int column = lane_id(); column < columns; column += 32)
    out[column * to.stride[3]] = in[column * from.stride[3]];
}

// The place of key j of batch entry b.
__device__ inline Place key_place(const CacheParams& p, int64_t b, int64_t j) {
  if (p.table == nullptr) return {b, j};
  return {index_at(p, p.table, b * p.of_entry + j / p.page_size), j % p.page_size};
}

// A warp's row: a batch entry or a pair of pages, a head, and a new row or a slot.
struct RowOf {
  int64_t b, h, i;
};
__device__ inline RowOf row_of(const CacheParams& p, int64_t row) {
  return {row / p.rows_of_head / p.heads, row / p.rows_of_head % p.heads, row % p.rows_of_head};
}

template <class T>
__global__ void append_kernel(const __grid_constant__ CacheParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= p.rows) return;  // all lanes of the warp
  const auto [b, h, i] = row_of(p, row);
  Place source = {b, i};
  if (p.cu_q != nullptr) {
    const int64_t first = index_at(p, p.cu_q, b);
    if (i >= index_at(p, p.cu_q, b + 1) - first) return;
    source = {0, first + i};
  }
  const int64_t length = index_at(p, p.key_lengths, b);
  const int64_t key = (length < 0 ? 0 : length > p.capacity ? p.capacity : length) + i;
  if (key >= p.capacity) return;
  const Place target = key_place(p, b, key);
  copy_row<T>(p.k_new, source, p.k, target, h, p.dim_qk);
  copy_row<T>(p.v_new, source, p.v, target, h, p.dim_v);
}

template <class T>
__global__ void copy_pages_kernel(const __grid_constant__ CacheParams p) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= p.rows) return;  // all lanes of the warp
  const auto [pair, h, slot] = row_of(p, row);
  const Place source = {index_at(p, p.table, pair * p.of_entry), slot},
              target = {index_at(p, p.table, pair * p.of_entry + 1), slot};
  copy_row<T>(p.k, source, p.k, target, h, p.dim_qk);
  copy_row<T>(p.v, source, p.v, target, h, p.dim_v);
}

bool is_append(const attn_problem& p) { return (p.features & ATTN_FEATURE_APPEND) != 0; }

int64_t rows_of_head(const attn_problem& p) { return is_append(p) ? p.seq_q : p.page_size; }

// Rows of all heads; negative if they do not fit a grid.
int64_t rows_of(const attn_problem& p) {
  return product_within(p.batch, p.heads_kv, rows_of_head(p), kMaxBlocks * kWarps);
}

struct Cache {
  static constexpr const char* kName = "cache";
  static constexpr const char* kDescription = "appends keys and values to caches, and copies their pages";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_NO_FORWARD |
                                        ATTN_FEATURE_F32 | ATTN_FEATURE_WIDE | ATTN_FEATURE_RAGGED |
                                        ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;

  static Refusal plan(const Call& call, attn_plan* plan) {
    if (rows_of(call.problem) < 0)
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: the problem has too many rows"};
    *plan = plain_plan(is_append(call.problem) ? "append, a warp a row" : "copy of pages, a warp a row", kWarps, 0);
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const attn_tensors t = strided(p, call.tensors);
    const int64_t rows = rows_of(p);
    const bool no_new_row = (p.ragged & ATTN_RAGGED_QUERIES) != 0 && p.total_q == 0;
    if (rows == 0 || no_new_row || (is_append(p) ? p.seq_k : p.pages) == 0) return ATTN_OK;
    const attn_tensor& table = is_append(p) ? t.block_table : t.copies;
    const CacheParams params = {t.k,
                                t.v,
                                t.k_new,
                                t.v_new,
                                (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? t.cu_q : nullptr,
                                t.key_lengths,
                                p.page_size != 0 ? table.data : nullptr,
                                table.stride[0],
                                p.index_dtype == ATTN_INDEX_32,
                                p.heads_kv,
                                p.seq_k,
                                p.page_size,
                                rows_of_head(p),
                                rows,
                                static_cast<int32_t>(p.dim_qk),
                                static_cast<int32_t>(p.dim_v)};
    const bool wide = p.dtype == ATTN_F32;
    const auto kernel = is_append(p) ? (wide ? append_kernel<uint32_t> : append_kernel<uint16_t>)
                                     : (wide ? copy_pages_kernel<uint32_t> : copy_pages_kernel<uint16_t>);
    return launch(kernel, dim3(static_cast<unsigned>(ceil_div(rows, kWarps))), dim3(kWarps * 32), 0, &call.env, params);
  }
};

const attn_kernel kCache = plug_in<Cache>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kCache : nullptr; }
