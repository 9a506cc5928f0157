// The parameters of a forward kernel on the device: attn_problem and attn_tensors with every default resolved.
// They are passed by value to each kernel of this family.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/primitives/platform.h"

namespace attn {

// The length of an unbounded side of a window, more than any position. Sizes are at most 2^40
// (kernels/plug_in.h), so sums of a few such values fit 64 bits.
inline constexpr int64_t kFar = int64_t{1} << 60;

inline constexpr float kLog2e = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.69314718055994530942f;

struct Strided {
  void* data;
  int64_t stride[4];

  Strided() = default;
  Strided(const attn_tensor& t) : data(t.data), stride{t.stride[0], t.stride[1], t.stride[2], t.stride[3]} {}

  template <class T>
  __device__ T* at(int64_t i0, int64_t i1, int64_t i2) const {
    return static_cast<T*>(data) + i0 * stride[0] + i1 * stride[1] + i2 * stride[2];
  }
  // The tensor from row `first` on, its index in the third dimension.
  template <class T>
  __device__ Strided from_row(int64_t first) const {
    Strided rest = *this;
    if (data != nullptr) rest.data = static_cast<T*>(data) + first * stride[2];
    return rest;
  }
};

// Says how a score is turned into an exponent of two: x2 = score * sigma - mu.
enum class ScoreMode : int32_t {
  kFused,    // scores stay raw (times the scale's sign); sigma = |scale| log2 e > 0
  kGeneral,  // scores are scaled, capped, biased and multiplied by log2 e first; sigma = 1. For a cap, a bias,
             // slopes, or a scale whose sigma would be 0 or not a normal number
};

// The format of 8-bit K and V, and their scales by batch entry, KV head and key (ATTN_FEATURE_KV8).
struct Narrow {
  int32_t dtype;  // ATTN_E4M3 or ATTN_E5M2; 0: K and V have the format of Q
  Strided k_scale, v_scale;
};

// The sinks: one more score for each query head, without a key (ATTN_FEATURE_SINK).
struct Sinks {
  const void* data;  // nullptr: there are none
  int64_t stride;    // from head to head
  int32_t dtype;     // attn_dtype
};

// The slopes of the query heads: slope * distance from the diagonal is subtracted from a score
// (ATTN_FEATURE_ALIBI).
struct Slopes {
  const float* data;            // nullptr: there are none
  int64_t of_entry, from_head;  // strides from entry to entry and from head to head
};

// Packed batch entries, and the format of lengths and offsets (ATTN_FEATURE_RAGGED, ATTN_FEATURE_INDEX32).
struct Ragged {
  const void *cu_q, *cu_k;  // nullptr: that side is dense
  bool narrow;              // cu_q, cu_k and key_lengths hold int32_t
};

// Keys in pages (ATTN_FEATURE_PAGED). There are fewer than 2^31 keys (check_pages() in checks.h).
struct Paged {
  const void* table;   // nullptr: keys do not lie in pages
  int64_t of_entry;    // stride of the table from one batch entry to the next
  uint32_t page_size;
};

// Keys that stand for blocks of keys (ATTN_FEATURE_KEY_STEP): key j has the position j * step + offset. Lengths, the
// diagonal and windows count positions.
struct KeyBlocks {
  int64_t step = 1, offset = 0;
};

struct ForwardParams {
  Strided q, k, v, o, lse, bias, mask;
  Sinks sinks;
  Slopes slopes;
  Ragged ragged;
  Paged paged;
  const int64_t* key_lengths;  // nullptr: all seq_k
  int64_t batch, heads_q, seq_q, seq_k;
  int32_t dim_qk, dim_v;
  int32_t group;                   // query heads per KV head
  int32_t packed;                  // query heads that share a query tile: 1, or group
  int64_t left, right;             // sides of the window; a causal mask has right = 0; kFar: unbounded
  bool bottom_right;               // where the diagonal lies
  bool has_mask;                   // there is a mask tensor
  int32_t bias_dtype;              // attn_dtype, or ATTN_NONE
  bool async_q, async_k, async_v;  // 16-byte copies are possible
  bool paired_o;                   // two columns of O can be stored at once
  ScoreMode mode;
  float sign, sigma;     // for kFused
  float scale, softcap;  // for kGeneral
  attn_probe probe;      // values is null if no probe is requested
  Narrow narrow;
  KeyBlocks blocks;
};

// The interval of keys that a query may see, mask and bias aside.
struct KeyRange {
  int64_t begin, end;
};

__device__ inline int64_t key_length(const ForwardParams& p, int64_t b) {
  if (p.key_lengths == nullptr) return p.seq_k;
  const int64_t length = p.key_lengths[b];
  return length < 0 ? 0 : length > p.seq_k ? p.seq_k : length;
}

// The number of keys, from key 0 on, whose positions are below `end`.
__device__ inline int64_t keys_below(const ForwardParams& p, int64_t end) {
  const int64_t past = end - p.blocks.offset;
  if (past <= 0) return 0;
  return p.blocks.step == 1 ? past : (past - 1) / p.blocks.step + 1;
}

// The rows of a batch entry: where they begin in Q, O and LSE and in K and V, and how many there are. In dense
// tensors they begin at 0.
struct Entry {
  int64_t first_query, queries;
  int64_t first_key, keys;
  int64_t positions;  // the entry's length; equal to keys, unless keys stand for blocks
};

__device__ inline int64_t index_at(const ForwardParams& p, const void* array, int64_t n) {
  return p.ragged.narrow ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// The rows of batch entry b of any problem. Paths that take only dense entries and int64_t lengths call
// key_length() instead.
__device__ inline Entry entry_of(const ForwardParams& p, int64_t b) {
  Entry entry = {0, p.seq_q, 0, p.seq_k, 0};
  if (p.ragged.cu_q != nullptr) {
    entry.first_query = index_at(p, p.ragged.cu_q, b);
    entry.queries = index_at(p, p.ragged.cu_q, b + 1) - entry.first_query;
  }
  if (p.ragged.cu_k != nullptr) {
    entry.first_key = index_at(p, p.ragged.cu_k, b);
    entry.keys = index_at(p, p.ragged.cu_k, b + 1) - entry.first_key;
  }
  entry.positions = entry.keys * p.blocks.step + p.blocks.offset;
  if (p.key_lengths != nullptr) {
    const int64_t length = index_at(p, p.key_lengths, b);
    entry.positions = length < 0 ? 0 : length > entry.positions ? entry.positions : length;
  }
  entry.keys = keys_below(p, entry.positions);
  return entry;
}

// The place of key j of batch entry b in K and V: the indices of their first and third dimensions. j must be
// below the number of keys, because table entries behind the last key need not be valid.
struct StoredKey {
  int64_t first, row;
};
__device__ inline StoredKey stored_key(const ForwardParams& p, int64_t b, const Entry& entry, int64_t j) {
  if (p.paged.table == nullptr) return {b, entry.first_key + j};
  const uint32_t n = static_cast<uint32_t>(j) / p.paged.page_size, slot = static_cast<uint32_t>(j) % p.paged.page_size;
  return {index_at(p, p.paged.table, b * p.paged.of_entry + n), slot};
}

// The address of column 0 of key j of batch entry b in K or V.
template <class T>
__device__ const T* key_row(const ForwardParams& p, const Strided& tensor, int64_t kv_head, int64_t b,
                            const Entry& entry, int64_t j) {
  const StoredKey at = stored_key(p, b, entry, j);
  return tensor.at<const T>(at.first, kv_head, at.row);
}

// The position of the key that lies on query i's diagonal.
__device__ inline int64_t diagonal_of(const ForwardParams& p, const Entry& entry, int64_t i) {
  return p.bottom_right ? i + entry.positions - entry.queries : i;
}
__device__ inline int64_t diagonal_of(const ForwardParams& p, int64_t length, int64_t i) {
  return diagonal_of(p, Entry{0, p.seq_q, 0, length, length}, i);
}

__device__ inline KeyRange visible_range(const ForwardParams& p, const Entry& entry, int64_t i) {
  const int64_t diagonal = diagonal_of(p, entry, i);
  const int64_t begin = keys_below(p, diagonal - p.left), end = keys_below(p, diagonal + p.right + 1);
  return {begin, end < entry.keys ? end : entry.keys};
}
// For paths that take only dense entries, and no keys that stand for blocks. It does not divide by the blocks' step,
// because the division costs registers.
__device__ inline KeyRange visible_range(const ForwardParams& p, int64_t length, int64_t i) {
  const int64_t diagonal = diagonal_of(p, length, i);
  const int64_t begin = diagonal - p.left, end = diagonal + p.right + 1;
  return {begin > 0 ? begin : 0, end < length ? end : length};
}

}  // namespace attn
