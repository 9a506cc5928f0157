// Inverted lists: for each block of keys the queries that list it, in ascending order, and its items. dq has
// set a bit for each query and block that it lists (mark_list); before it, prepare_kernel has set all bits to
// 0. The kernels below run in this order:
//
//   count        a warp per block of keys: the number of its queries, from the bits of its row
//   scan         a warp per KV head: where the queries and the items of each block begin
//   fill         a warp per block of keys: writes its queries and its items
//
// Each bit is added once, so the order of the atomic additions does not matter.
#pragma once

#include "kernels/nsa_backward/mma_params.h"
#include "kernels/primitives/atomic.h"

namespace attn::nsa {

__device__ __forceinline__ int ones_of(uint32_t word) {
  word -= word >> 1 & 0x55555555u;
  word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
  return static_cast<int>(((word + (word >> 4) & 0x0F0F0F0Fu) * 0x01010101u) >> 24);
}

// The sum of `value` over the lanes up to this one.
__device__ inline int32_t sum_up_to(int32_t value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = shfl(value, lane_id() >= step ? lane_id() - step : 0);
    if (lane_id() >= step) value += other;
  }
  return value;
}

// Sets the bits of query i of a KV head (`head` counts over all batch entries). Its list is in shared memory,
// without repeats.
template <class Shared>
__device__ void mark_list(const MmaParams& p, const Shared& shared, int64_t head, int64_t i) {
  for (int n = thread_id(); n < p.of.of.select; n += kThreads) {
    const int32_t c = shared.list[n];
    if (c >= 0) atomic_add(p.bits + (head * p.of.blocks + c) * p.words + i / 32, 1u << (i % 32));
  }
}

// The block of keys of this warp; `head` counts the KV heads of all batch entries.
struct ListedBlock {
  int64_t head, c;
  bool there;
};
__device__ inline ListedBlock listed_block(const MmaParams& p, int64_t heads) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kWarps + warp_id();
  return {n / p.of.blocks, n % p.of.blocks, n < heads * p.of.blocks};
}

static __global__ void count_kernel(const __grid_constant__ MmaParams p, int64_t heads) {
  const auto [head, c, there] = listed_block(p, heads);
  if (!there) return;  // the whole warp returns
  const uint32_t* const bits = p.bits + (head * p.of.blocks + c) * p.words;
  int32_t count = 0;
  for (int64_t n = lane_id(); n < p.words; n += 32) count += ones_of(bits[n]);
  count = shfl(sum_up_to(count), 31);
  if (lane_id() == 0) p.of.starts[head * (p.of.blocks + 1) + c] = count;
}

__device__ inline int64_t queries_of(const SelectedParams& p, int64_t b) {
  return p.cu_q == nullptr ? p.seq_q : index_at(p, p.cu_q, b + 1) - index_at(p, p.cu_q, b);
}

static __global__ void scan_kernel(const __grid_constant__ MmaParams p) {
  const int64_t head = blockIdx.x;
  int32_t* const starts = p.of.starts + head * (p.of.blocks + 1);
  int32_t* const items = p.first_items + head * (p.of.blocks + 1);
  const int32_t part = static_cast<int32_t>(part_of(p, queries_of(p.of.of, head / p.of.of.heads_kv)));
  int32_t queries_before = 0, items_before = 0;
  for (int64_t first = 0; first <= p.of.blocks; first += 32) {
    const int64_t c = first + lane_id();
    const int32_t queries = c < p.of.blocks ? starts[c] : 0;
    const int32_t parts = c >= p.of.blocks ? 0 : queries == 0 ? 1 : (queries - 1) / part + 1;
    const int32_t queries_here = sum_up_to(queries), items_here = sum_up_to(parts);
    if (c <= p.of.blocks) {
      starts[c] = queries_before + queries_here - queries;
      items[c] = items_before + items_here - parts;
    }
    queries_before += shfl(queries_here, 31);
    items_before += shfl(items_here, 31);
  }
}

static __global__ void fill_kernel(const __grid_constant__ MmaParams p, int64_t heads) {
  const auto [head, c, there] = listed_block(p, heads);
  if (!there) return;  // the whole warp returns
  const uint32_t* const bits = p.bits + (head * p.of.blocks + c) * p.words;
  int32_t* queries = p.of.queries + head * p.places + p.of.starts[head * (p.of.blocks + 1) + c];
  const uint32_t below = (1u << lane_id()) - 1;
  for (int64_t first = 0; first < p.words; first += 32) {
    const uint32_t mine = first + lane_id() < p.words ? bits[first + lane_id()] : 0;
    for (int n = 0; n < 32; ++n) {
      const uint32_t word = shfl(mine, n);
      if (word == 0) continue;  // all lanes continue
      if ((word >> lane_id() & 1) != 0)
        queries[ones_of(word & below)] = static_cast<int32_t>(32 * (first + n) + lane_id());
      queries += ones_of(word);
    }
  }
  const int32_t* const items = p.first_items + head * (p.of.blocks + 1) + c;
  for (int64_t n = items[0] + lane_id(); n < items[1]; n += 32)
    p.item_blocks[head * p.items + n] = static_cast<int32_t>(c);
}

}  // namespace attn::nsa
