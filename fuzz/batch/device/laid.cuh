// Computes the elements of an input on a device, one at a time. The values are those that inputs.h writes on
// the host.
#pragma once

#include "fuzz/batch/device/kernels.h"
#include "properties/case/places/list_values.h"
#include "properties/data/fill_values.h"
#include "properties/data/fill_values32.h"
#include "properties/data/mask_values.h"
#include "properties/data/sink_values.h"
#include "properties/data/slope_values.h"
#include "properties/data/source.h"
#include "reference/semantics.h"

namespace attnfuzz::batch {

// These functions find packed rows by the recipe's borders, as sequences.h does on the host.
__device__ inline bool is_packed(const Call& call, int t) {
  return ((call.packed_q | call.packed_k) >> t & 1) != 0;
}
__device__ inline const int64_t* borders_of(const Call& call, int t) {
  return (call.packed_q >> t & 1) != 0 ? call.recipe.borders_q : call.recipe.borders_k;
}
// The number of rows of a packed tensor that belong to entries. The rows behind them belong to
// none.
__device__ inline int64_t owned_rows(const Call& call, int t) {
  return borders_of(call, t)[call.problem.batch];
}
// The queries of batch entry b.
__device__ inline int64_t queries_of(const Call& call, int64_t b) {
  const int64_t* borders = call.recipe.borders_q;
  return call.packed_q != 0 ? borders[b + 1] - borders[b] : call.problem.seq_q;
}
// True if tensor t has keys in pages.
__device__ inline bool in_pages(const Call& call, int t) { return (call.paged >> t & 1) != 0; }
// The number of rows of K and V that batch entry b has room for.
__device__ inline int64_t room_for_keys(const Call& call, int64_t b) {
  const int64_t* borders = call.recipe.borders_k;
  return call.packed_k != 0 ? borders[b + 1] - borders[b] : call.problem.seq_k;
}
// The number of rows of K and V that batch entry b has. If keys lie in pages, its key length gives the number.
__device__ inline int64_t held_keys(const Call& call, int64_t b) {
  return call.paged != 0 ? paged_keys_of(call, b) : room_for_keys(call, b);
}

// The lengths of batch entry b, and its number of keys.
__device__ inline Lengths lengths_of(const Call& call, int64_t b) {
  return lengths_in(call, b, queries_of(call, b), room_for_keys(call, b));
}
__device__ inline int64_t length_of(const Call& call, int64_t b) { return lengths_of(call, b).keys; }

// The fp32 NaN in rows at and beyond a key length. InputRows writes the same one.
inline constexpr uint32_t kNan32 = 0x7fc00000;

// The last value that is planted at element (b, h, s, d) of tensor t, or nullptr if there is none.
__device__ inline const Plant* plant_at(const Recipe& recipe, int t, uint32_t b, uint32_t h, uint32_t s,
                                        uint32_t d) {
  for (uint32_t n = recipe.planted; n-- > 0;) {
    const Plant& x = recipe.plant[n];
    if (x.tensor == t && x.n[0] == b && x.n[1] == h && x.n[2] == s && x.n[3] == d) return &x;
  }
  return nullptr;
}

__device__ inline uint32_t sum_bits(int32_t dtype, uint32_t a, uint32_t b) {
  if (dtype == ATTN_F32)
    return __float_as_uint(static_cast<float>(double{__uint_as_float(a)} + double{__uint_as_float(b)}));
  return to_bits(dtype, fill_values::number_of_bits(dtype, static_cast<uint16_t>(a)) +
                            fill_values::number_of_bits(dtype, static_cast<uint16_t>(b)));
}

__device__ inline uint32_t filled(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d,
                                  int64_t dim) {
  if (dtype == ATTN_F32) return fill_bits32(fill, b, h, s, d, dim);
  return fill_bits(fill, dtype, b, h, s, d, dim);
}

// All values of one row of Q, K or V share these numbers.
struct RowValues {
  uint32_t b, h, row;              // the row's batch entry, head, and place in that entry
  int64_t from_b, from_h, from_s;  // the indices at which the fill is evaluated, after the remap
  bool planted;                    // some values of the row are planted
  bool nan;     // the row holds NaN, because it is past its key length and the recipe asks for that
  bool random;  // `key` is set: all values but the planted ones come from a random fill
  fill_values::RandomRow key;
};

// Called by all threads of a warp with the same arguments.
__device__ inline RowValues row_values(const Call& call, int t, uint32_t b, uint32_t h, uint32_t s) {
  const Recipe& recipe = call.recipe;
  const Fill& fill = recipe.fill[t];
  const int32_t dtype = call.problem.dtype;
  const bool query = t == kQuery;
  const bool all_entries = recipe.once_batch[t], all_heads = recipe.once_head[t];
  RowValues row = {b, h, s, b, h, s, false, false, dtype != ATTN_F32 && fill_values::is_random(fill.kind), {}};
  for (uint32_t n = threadIdx.x % 32; n < recipe.planted; n += 32) {
    const Plant& x = recipe.plant[n];
    row.planted |= x.tensor == t && x.n[0] == b && x.n[1] == h && x.n[2] == s;
  }
  row.planted = __any_sync(0xffffffffu, row.planted) != 0;
  row.nan = !query && !in_pages(call, t) && recipe.nan_beyond_lengths &&
            s >= (all_entries ? recipe.longest : length_of(call, b));
  if (recipe.remapped) {
    const int64_t length = length_of(call, b);
    row.from_s = source(query ? recipe.query : recipe.key, s, length);
    const bool shared = !query && row.from_s < recipe.shared_keys;
    row.from_b = all_entries || shared ? 0 : source(recipe.batch, b, length);
    row.from_h = all_heads ? 0 : source(query ? recipe.head_q : recipe.head_kv, h, length);
  }
  if (row.random)
    row.key = fill_values::random_row(fill, dtype == ATTN_F16, row.from_b, row.from_h, row.from_s);
  return row;
}

// The bits of an element of Q, K or V in column d of a row.
__device__ inline uint32_t value_bits(const Call& call, int t, const RowValues& row, uint32_t d) {
  const Recipe& recipe = call.recipe;
  const int32_t dtype = call.problem.dtype;
  const int64_t dim = call.tensor[t].size[3];
  if (row.planted)
    if (const Plant* plant = plant_at(recipe, t, row.b, row.h, row.row, d)) return plant->bits;
  if (row.nan) return dtype == ATTN_F32 ? kNan32 : format16(dtype).nan;
  uint32_t bits = row.random ? fill_values::random_bits(recipe.fill[t], dtype, row.key, d)
                             : filled(recipe.fill[t], dtype, row.from_b, row.from_h, row.from_s, d, dim);
  if (!recipe.remapped) return bits;
  if (t == kKey && recipe.has_k_shift)
    bits = sum_bits(dtype, bits, filled(recipe.k_shift, dtype, row.from_b, row.from_h, 0, d, dim));
  if (t == kValue && recipe.has_v_added)
    bits = sum_bits(dtype, bits, filled(recipe.v_added, dtype, row.from_b, row.from_h, row.from_s, d, dim));
  return bits;
}

// The bits of an element of Q, K or V that belongs to no batch entry: InputRows::write_slack(). It lies in a
// row of a packed tensor, where `page` is 0, or in a slot of a page.
__device__ inline uint32_t slack_bits(const Call& call, int t, uint32_t page, uint32_t h, uint32_t s,
                                      uint32_t d) {
  const int32_t dtype = call.problem.dtype;
  const bool numbers = in_pages(call, t) ? call.recipe.paging.numbers
                       : t == kQuery     ? call.recipe.numbers_q != 0
                                         : call.recipe.numbers_k != 0;
  if (!numbers) return dtype == ATTN_F32 ? kNan32 : format16(dtype).nan;
  return filled(call.recipe.fill[t], dtype, page, h, s, d, call.tensor[t].size[3]);
}

// The sink of head h in the bits of its dtype, and the slope of head h in batch entry b.
__device__ inline uint32_t sink_at(const Call& call, int64_t h) {
  return sink_bits(call.recipe.sink, source(call.recipe.head_q, h, call.problem.seq_k));
}
__device__ inline float slope_at(const Call& call, int64_t b, int64_t h) {
  const Recipe& recipe = call.recipe;
  const int64_t keys = call.problem.seq_k;
  return slope_value(recipe.slopes, recipe.slopes.entries ? source(recipe.batch, b, keys) : 0,
                     source(recipe.head_q, h, keys));
}

// The bits of an element of a merge's side: its O, or its LSE in the plan's form.
__device__ inline uint32_t side_bits(const Call& call, int t, uint32_t b, uint32_t h, uint32_t s, uint32_t d) {
  const Recipe& recipe = call.recipe;
  if (const Plant* plant = plant_at(recipe, t, b, h, s, d)) return plant->bits;
  const int side = t == kSecondO || t == kSecondLse;
  const bool lse = t == kFirstLse || t == kSecondLse;
  int64_t from_b = b, from_h = h, from_s = s;
  if (recipe.remapped) {
    const int64_t keys = length_of(call, b);
    from_b = source(recipe.batch, b, keys), from_h = source(recipe.head_q, h, keys);
    from_s = source(recipe.query, s, keys);
  }
  if (!pattern_shows(recipe.sides, from_b, from_h, from_s, side, call.problem.seq_q, 2))
    return !lse ? 0 : call.plan.lse_dead == ATTN_LSE_DEAD_PLUS_INF ? 0x7f800000u : 0xff800000u;
  return filled(lse ? recipe.side_lse[side] : recipe.side_o[side], lse ? int32_t{ATTN_F32} : call.problem.dtype,
                from_b, from_h, from_s, d, call.tensor[t].size[3]);
}

// The indices at which the recipe is evaluated for one element of a bias or a mask.
struct PairSource {
  int64_t b, h, i, j;
};
__device__ inline PairSource pair_source(const Call& call, const Broadcast& all, uint32_t b, uint32_t h,
                                         uint32_t i, uint32_t j) {
  const Recipe& recipe = call.recipe;
  if (!recipe.remapped) return {b, h, i, j};
  const int64_t length = length_of(call, b);
  return {all.batch ? 0 : source(recipe.batch, b, length), all.head ? 0 : source(recipe.head_q, h, length),
          all.query ? 0 : source(recipe.query, i, length), source(recipe.key, j, length)};
}

// Returns the bits of a bias in its own dtype.
__device__ inline uint32_t bias_at(const Call& call, uint32_t b, uint32_t h, uint32_t i, uint32_t j) {
  const Recipe& recipe = call.recipe;
  if (const Plant* plant = plant_at(recipe, kBias, b, h, i, j)) return plant->bits;
  const PairSource at = pair_source(call, recipe.bias.broadcast, b, h, i, j);
  return bias_bits(recipe.bias, at.b, at.h, at.i, at.j, recipe.seq_q, recipe.seq_k);
}

__device__ inline uint8_t mask_at(const Call& call, uint32_t b, uint32_t h, uint32_t i, uint32_t j) {
  const PairSource at = pair_source(call, call.recipe.mask.broadcast, b, h, i, j);
  return pattern_shows(call.recipe.mask.visible, at.b, at.h, at.i, at.j, call.recipe.seq_q, call.recipe.seq_k);
}

// The list of query i of KV head g.
__device__ inline const int32_t* list_of(const Work& work, int64_t b, int64_t g, int64_t i) {
  const attn_problem& p = work.call->problem;
  return work.lists + ((b * p.heads_kv + g) * p.seq_q + i) * p.select;
}

// The number at index n of the kernel's lists. Those of a row that belongs to no packed entry are as
// InputRows::write_slack() writes them.
__device__ inline int64_t listed_at(const Work& work, const uint32_t (&n)[4]) {
  const Call& call = *work.call;
  int64_t b = n[0], i = n[2];
  if (is_packed(call, kListed)) {
    if (i >= owned_rows(call, kListed)) return call.recipe.numbers_q ? 0 : INT32_MAX;
    const int64_t* const borders = borders_of(call, kListed);
    while (borders[b + 1] <= i) ++b;
    i -= borders[b];
  }
  return list_of(work, b, n[1], i)[n[3]];
}

// The unit at byte `within` of element n of an input other than Q, K and V. A unit is one byte for a mask, and
// two bytes for every other tensor.
__device__ inline uint16_t input_unit(const Work& work, int t, const uint32_t (&n)[4], uint32_t within) {
  const Call& call = *work.call;
  const auto part_of = [&](uint64_t bits) { return static_cast<uint16_t>(bits >> 8 * within); };
  switch (t) {
    case kBias:
      return part_of(bias_at(call, n[0], n[1], n[2], n[3]));
    case kMask:
      return mask_at(call, n[0], n[1], n[2], n[3]);
    case kLengths:
      return part_of(static_cast<uint64_t>(call.recipe.lengths[n[3]]));  // of 4 or 8 bytes, little-endian
    case kBordersQ:
      return part_of(static_cast<uint64_t>(call.recipe.borders_q[n[3]]));
    case kBordersK:
      return part_of(static_cast<uint64_t>(call.recipe.borders_k[n[3]]));
    case kTable:
      return part_of(static_cast<uint64_t>(work.table[n[0] * call.problem.pages_per_seq + n[3]]));
    case kListed:
      return part_of(static_cast<uint64_t>(listed_at(work, n)));
    case kSinks:
      return part_of(sink_at(call, n[1]));
    case kHeadSlopes:
      return part_of(__float_as_uint(slope_at(call, n[0], n[1])));
    default:
      return part_of(side_bits(call, t, n[0], n[1], n[2], n[3]));
  }
}

}  // namespace attnfuzz::batch
