// The rows of Q, K and V: in the kernel's tensors, and in the oracle's dense copy. A warp visits one row after
// another.
#pragma once

#include "fuzz/batch/device/kernels.h"
#include "fuzz/batch/device/units.cuh"

namespace attnfuzz::batch {

// Calls visit(pattern, unit) for each unit of the redzones and gaps of Q, K or V.
template <class Visit>
__device__ inline void each_unit_between(const Work& work, int t, const Visit& visit) {
  const TensorSlot& place = work.call->tensor[t];
  const auto each = [&](uint64_t from, uint64_t to, bool gaps) {
    for (uint64_t at = from + 2 * static_cast<uint64_t>(first_unit()); at < to;
         at += 2 * static_cast<uint64_t>(stride_of_units()))
      if (!gaps || !element_at(place, static_cast<uint32_t>(at - place.data) / place.element_bytes).is)
        visit(pattern_at(place, at), *reinterpret_cast<uint16_t*>(work.base[t] + address_of(place, at)));
  };
  uint64_t elements = place.element_bytes;
  for (const uint32_t size : place.size) elements *= size;
  each(place.begin, place.data, false);
  each(place.elements_end, place.end, false);
  if (place.data + elements != place.elements_end) each(place.data, place.elements_end, true);
}

// The rows of Q, K or V as the oracle reads them: dense, and padded with zeros (rows.h).
template <class Number>
struct Packed {
  Number* at;
  int32_t rows, length, heads, stride;
};
template <class Number>
__device__ Packed<Number> packed_of(const Work& work, int t) {
  const attn_problem& p = work.call->problem;
  const cuda::RowsInput& in = work.input;
  const auto heads_q = static_cast<int32_t>(p.heads_q), heads_kv = static_cast<int32_t>(p.heads_kv);
  const auto writable = [](const void* at) { return static_cast<Number*>(const_cast<void*>(at)); };
  if (t == kQuery) return {writable(in.q), in.rows, static_cast<int32_t>(p.seq_q), heads_q, in.stride_qk};
  if (t == kKey) return {writable(in.k), in.groups * in.keys, in.keys, heads_kv, in.stride_qk};
  return {writable(in.v), in.groups * in.keys, in.keys, heads_kv, in.stride_v};
}

// The place of a row of Q, K or V in the kernel's tensors.
template <class Number>
struct Stored {
  Number* at;
  int64_t step;    // to the next column
  uint32_t b, h;   // the indices by which its values are made: 0 if all indices share one row
  uint32_t entry;  // the batch entry of the row
  bool mine;       // true if no other row shares this memory, or if this is the first of those that do
};

// The tensor whose memory t uses: K for a latent V, else t itself.
__device__ inline int memory_of(const Work& work, int t) {
  return t == kValue && work.call->problem.latent != 0 ? kKey : t;
}

// The place of row s of batch entry b in Q, K or V: the indices of its first and its third dimension.
struct RowPlace {
  uint32_t first, row;
};
__device__ inline RowPlace row_place(const Work& work, int t, uint32_t b, int32_t s) {
  const Call& call = *work.call;
  if (is_packed(call, t)) return {0, static_cast<uint32_t>(borders_of(call, t)[b] + s)};
  if (in_pages(call, t)) {
    const attn_problem& p = call.problem;
    return {static_cast<uint32_t>(work.table[b * p.pages_per_seq + s / p.page_size]),
            static_cast<uint32_t>(s % p.page_size)};
  }
  return {call.tensor[t].size[0] == 1 ? 0 : b, static_cast<uint32_t>(s)};
}

// Calls visit(Stored, s, the oracle's row, its stride), one warp for each row. It skips rows that a
// packed or paged entry does not have.
template <class Number, class Visit>
__device__ inline void each_row(const Work& work, int t, const Visit& visit) {
  const Call& call = *work.call;
  const int memory = memory_of(work, t);
  const TensorSlot& place = call.tensor[memory];
  const bool paged = in_pages(call, memory), dense = !is_packed(call, memory) && !paged;
  const int64_t shared = call.recipe.paging.shared * call.recipe.paging.size;
  const Packed packed = packed_of<Number>(work, t);
  const auto warp = static_cast<int32_t>(first_unit() / 32),
             warps = static_cast<int32_t>(stride_of_units() / 32);
  for (int32_t row = warp; row < packed.rows; row += warps) {
    const int32_t head = row / packed.length, s = row % packed.length, b = head / packed.heads,
                  h = head % packed.heads;
    if (s >= (t == kQuery ? queries_of(call, b) : held_keys(call, b))) continue;
    Stored<Number> stored;
    stored.entry = static_cast<uint32_t>(b);
    stored.b = (place.size[0] == 1 && dense) || (paged && s < shared) ? 0 : static_cast<uint32_t>(b);
    stored.h = place.size[1] == 1 ? 0 : static_cast<uint32_t>(h);
    // Entries write the same values to a page that they share.
    stored.mine = (paged || stored.b == static_cast<uint32_t>(b)) && stored.h == static_cast<uint32_t>(h);
    stored.step = (place.backwards & 8) != 0 ? -int64_t{place.stride[3]} : int64_t{place.stride[3]};
    const RowPlace at = row_place(work, memory, static_cast<uint32_t>(b), s);
    const uint64_t offset = element_offset(place, at.first, stored.h, at.row, 0);
    stored.at =
        reinterpret_cast<Number*>(work.base[memory] + address_of(place, place.data + offset * sizeof(Number)));
    visit(stored, s, packed.at + int64_t{row} * packed.stride, packed.stride);
  }
}

// Calls visit(element, its content) for each element of Q, K or V that belongs to no batch entry.
template <class Number, class Visit>
__device__ inline void each_slack_element(const Work& work, int t, const Visit& visit) {
  const Call& call = *work.call;
  const bool paged = in_pages(call, t);
  if (!is_packed(call, t) && !paged) return;
  const TensorSlot& place = call.tensor[t];
  const int64_t first = paged ? 0 : owned_rows(call, t), heads = place.size[1], columns = place.size[3],
                rows = place.size[2] - first;
  for (int64_t unit = first_unit(); unit < place.size[0] * rows * heads * columns; unit += stride_of_units()) {
    const int64_t row = unit / columns / heads;
    const auto d = static_cast<uint32_t>(unit % columns), h = static_cast<uint32_t>(unit / columns % heads),
               s = static_cast<uint32_t>(first + row % rows), page = static_cast<uint32_t>(row / rows);
    if (paged && static_cast<int32_t>(s) < work.held[page]) continue;
    const uint64_t at = place.data + element_offset(place, page, h, s, d) * sizeof(Number);
    visit(*reinterpret_cast<Number*>(work.base[t] + address_of(place, at)),
          static_cast<Number>(slack_bits(call, t, page, h, s, d)));
  }
}

}  // namespace attnfuzz::batch
