// Chooses blocks by their scores (ATTN_FEATURE_NSA_SELECT). One warp makes a list.
//
// A block's rank is the number of candidates that come before it. Forced blocks come first, then the others by
// descending score; if scores are equal, the lower number comes first. The blocks with the lowest ranks are
// chosen. Lanes rank 32 blocks at a time, and a ballot gives the place of each chosen block in the list.
#pragma once

#include "kernels/nsa/selected.h"

namespace attn::nsa {

struct SelectParams {
  SelectedParams of;  // sizes, key lengths, indices
  Strided scores;
  int64_t lists, first, last;
};

// True if block a ranks before block b among `count` candidates.
__device__ inline bool before(const SelectParams& p, const float* scores, int64_t count, int64_t a, int64_t b) {
  const int64_t stride = p.scores.stride[3];
  const bool forced_a = a < p.first || a >= count - p.last, forced_b = b < p.first || b >= count - p.last;
  if (forced_a != forced_b) return forced_a;
  const float x = scores[a * stride], y = scores[b * stride];
  if (!forced_a && x != y) return x > y;
  return a < b;
}

// The number of set bits.
__device__ inline int count_of(uint32_t bits) {
  bits -= bits >> 1 & 0x55555555u;
  bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
  bits = (bits + (bits >> 4)) & 0x0f0f0f0fu;
  return static_cast<int>((bits * 0x01010101u) >> 24);
}

__device__ inline void put(const SelectedParams& p, int64_t at, int64_t block) {
  if (p.narrow)
    static_cast<int32_t*>(p.indices.data)[at] = static_cast<int32_t>(block);
  else
    static_cast<int64_t*>(p.indices.data)[at] = block;
}

// The number of candidates of query i.
__device__ inline int64_t candidates_of(const SelectedParams& of, int64_t b, int64_t i) {
  const int64_t end = end_of_keys(of, b, i);
  return end <= 0 ? 0 : (end - 1) / of.block + 1;
}

// Makes the list of one query and KV head. The whole warp calls it. `scores`: of `count` candidates, with the stride
// of p.scores from one to the next.
__device__ inline void make_list(const SelectParams& p, const float* scores, int64_t count, int64_t b, int64_t g,
                                 int64_t i) {
  const SelectedParams& of = p.of;
  const int64_t to = b * of.indices.stride[0] + g * of.indices.stride[1] + i * of.indices.stride[2];
  int64_t found = 0;
  for (int64_t tile = 0; tile < count; tile += 32) {
    const int64_t block = tile + lane_id();
    int64_t rank = 0;
    for (int64_t other = 0; block < count && other < count; ++other) rank += before(p, scores, count, other, block);
    const bool chosen = block < count && rank < of.select;
    const uint32_t all = ballot(chosen), below = all & ((uint32_t{1} << lane_id()) - 1);
    if (chosen) put(of, to + (found + count_of(below)) * of.indices.stride[3], block);
    found += count_of(all);
  }
  for (int64_t n = found + lane_id(); n < of.select; n += 32) put(of, to + n * of.indices.stride[3], -1);
}

static __global__ void select_kernel(const __grid_constant__ SelectParams call) {
  const int64_t list = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  if (list >= call.lists) return;  // the whole warp returns
  const int64_t i = list % call.of.seq_q, head = list / call.of.seq_q, g = head % call.of.heads_kv,
                b = head / call.of.heads_kv;
  SelectParams p = call;
  if (p.of.cu_q != nullptr) p.scores = p.scores.from_row<float>(index_at(p.of, p.of.cu_q, b));
  p.of = of_entry<float>(p.of, b);
  if (i >= p.of.seq_q) return;  // the whole warp returns
  make_list(p, p.scores.at<float>(b, g, i), candidates_of(p.of, b, i), b, g, i);
}

}  // namespace attn::nsa
