// Compresses blocks of keys into one key and one value each, their means (ATTN_FEATURE_NSA_COMPRESS): the first stage of
// native sparse attention.
//
// A warp computes the means of K and V of a block of one head; its lanes take the columns. It adds the block's
// l keys in ascending order, in fp32, and multiplies the sum by 1 / l. If the entry has too few keys for the
// block, the result is 0, and no key is read.
#include "kernels/forward/all_formats.h"
#include "kernels/forward/params.h"
#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/element.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/warp.h"

namespace attn {
namespace {

constexpr int kWarps = 4;

struct CompressParams {
  Strided k, v, k_cmp, v_cmp;
  const void* key_lengths;  // nullptr: all seq_k
  const void *cu_q, *cu_k;  // of the rows that are written, and of keys; nullptr: that side is dense
  bool narrow;              // key_lengths, cu_q and cu_k hold int32_t
  int64_t heads, seq_k;
  int64_t blocks, rows;  // blocks of a head; blocks over all entries and heads
  int64_t step, length;  // keys from one block to the next; keys of a block
  float inverse;         // 1 / length
  int32_t dim_qk, dim_v;
};

__device__ inline int64_t index_at(const CompressParams& p, const void* array, int64_t n) {
  return p.narrow ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// The parameters for batch entry b, as if its rows were dense (ATTN_FEATURE_RAGGED): row 0 of a tensor is the entry's
// first, and `blocks` and seq_k are the numbers of its rows. Without packed rows nothing changes.
template <class T>
__device__ CompressParams of_entry(CompressParams p, int64_t b) {
  if (p.cu_q != nullptr) {
    const int64_t first = index_at(p, p.cu_q, b);
    p.blocks = index_at(p, p.cu_q, b + 1) - first;
    p.k_cmp = p.k_cmp.from_row<T>(first), p.v_cmp = p.v_cmp.from_row<T>(first);
  }
  if (p.cu_k != nullptr) {
    const int64_t first = index_at(p, p.cu_k, b);
    p.seq_k = index_at(p, p.cu_k, b + 1) - first;
    p.k = p.k.from_row<T>(first), p.v = p.v.from_row<T>(first);
  }
  return p;
}

__device__ inline int64_t keys_of(const CompressParams& p, int64_t b) {
  if (p.key_lengths == nullptr) return p.seq_k;
  const int64_t keys = index_at(p, p.key_lengths, b);
  return keys < p.seq_k ? keys : p.seq_k;
}

// Writes the mean of `length` rows from row `first` on, or 0 if the entry does not have the block.
template <class T>
__device__ void write_mean(const CompressParams& p, const Strided& keys, const Strided& to, int64_t b, int64_t h,
                           int64_t block, bool there, int32_t columns) {
  const T* const first = keys.at<T>(b, h, there ? block * p.step : 0);
  for (int column = lane_id(); column < columns; column += 32) {
    float sum = 0;
    for (int64_t j = 0; there && j < p.length; ++j)
      sum += load_float(first + j * keys.stride[2] + column * keys.stride[3]);
    store_float(to.at<T>(b, h, block) + column * to.stride[3], sum * p.inverse);
  }
}

template <class T>
__global__ void compress_kernel(const __grid_constant__ CompressParams call) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (row >= call.rows) return;  // the whole warp returns
  const int64_t block = row % call.blocks, h = row / call.blocks % call.heads, b = row / call.blocks / call.heads;
  const CompressParams p = of_entry<T>(call, b);
  if (block >= p.blocks) return;  // the whole warp returns
  const int64_t last = keys_of(p, b) - p.length;  // the last key at which a block may begin; if negative, no block fits
  const bool there = last >= 0 && block <= last / p.step;  // a division, because block * step may overflow
  write_mean<T>(p, p.k, p.k_cmp, b, h, block, there, p.dim_qk);
  write_mean<T>(p, p.v, p.v_cmp, b, h, block, there, p.dim_v);
}

// Batch entries times heads times rows; negative if they do not fit a grid.
int64_t rows_of(const attn_problem& p) {
  return product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks * kWarps);
}

struct Compress {
  static constexpr const char* kName = "nsa_compress";
  static constexpr const char* kDescription = "native sparse attention: compresses blocks of keys into their means";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures = ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 |
                                        ATTN_FEATURE_WIDE | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;

  static Refusal plan(const Call& call, attn_plan* plan) {
    if (rows_of(call.problem) < 0)
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_kv * seq_q is too large"};
    *plan = plain_plan("a warp a block of keys", kWarps, 0);
    plan->rcp_class = ATTN_RCP_EXACT;
    plan->isolates_masked_nan = 1;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const attn_tensors t = strided(p, call.tensors);
    const int64_t rows = rows_of(p), length = p.key_offset + 1;
    if (rows == 0 || rows_of_queries(p).count == 0) return ATTN_OK;
    const CompressParams params = {t.k,
                                   t.v,
                                   t.k_cmp,
                                   t.v_cmp,
                                   p.has_key_lengths ? t.key_lengths : nullptr,
                                   (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? t.cu_q : nullptr,
                                   (p.ragged & ATTN_RAGGED_KEYS) != 0 ? t.cu_k : nullptr,
                                   p.index_dtype == ATTN_INDEX_32,
                                   p.heads_kv,
                                   p.seq_k,
                                   p.seq_q,
                                   rows,
                                   p.key_step,
                                   length,
                                   1.0f / static_cast<float>(length),
                                   static_cast<int32_t>(p.dim_qk),
                                   static_cast<int32_t>(p.dim_v)};
    const auto kernel = p.dtype == ATTN_F32   ? compress_kernel<float>
                        : p.dtype == ATTN_F16 ? compress_kernel<F16>
                                              : compress_kernel<BF16>;
    return launch(kernel, dim3(static_cast<unsigned>(ceil_div(rows, kWarps))), dim3(kWarps * 32), 0, &call.env,
                  params);
  }
};

const attn_kernel kCompress = plug_in<Compress>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kCompress : nullptr; }
