// Computes the elements of an input on a device, one at a time. The values are those that inputs.h writes on the host.
#pragma once

#include "fuzz/batch/call.h"
#include "properties/data/fill_values.h"
#include "properties/data/fill_values32.h"
#include "properties/data/mask_values.h"
#include "properties/data/source.h"

namespace attnfuzz::batch {

// The keys of batch entry b.
__device__ inline int64_t length_of(const Call& call, int64_t b) {
  const int64_t keys = call.problem.seq_k;
  if (!call.problem.has_key_lengths) return keys;
  const int64_t given = call.recipe.lengths[b];
  return given < 0 ? 0 : given > keys ? keys : given;
}

// The fp32 NaN in rows at and beyond a key length; the same one as InputRows writes.
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

// The bits of an element of Q, K or V.
__device__ inline uint32_t value_bits(const Call& call, int t, uint32_t b, uint32_t h, uint32_t s, uint32_t d) {
  const Recipe& recipe = call.recipe;
  const int32_t dtype = call.problem.dtype;
  const int64_t dim = call.tensor[t].size[3];
  if (const Plant* plant = plant_at(recipe, t, b, h, s, d)) return plant->bits;
  const bool query = t == kQuery;
  const bool all_entries = recipe.once_batch[t], all_heads = recipe.once_head[t];
  if (!query && recipe.nan_beyond_lengths && s >= (all_entries ? recipe.longest : length_of(call, b)))
    return dtype == ATTN_F32 ? kNan32 : format16(dtype).nan;
  if (!recipe.remapped) return filled(recipe.fill[t], dtype, b, h, s, d, dim);
  const int64_t length = length_of(call, b);
  const int64_t from_b = all_entries ? 0 : source(recipe.batch, b, length),
                from_h = all_heads ? 0 : source(query ? recipe.head_q : recipe.head_kv, h, length),
                from_s = source(query ? recipe.query : recipe.key, s, length);
  uint32_t bits = filled(recipe.fill[t], dtype, from_b, from_h, from_s, d, dim);
  if (t == kKey && recipe.has_k_shift)
    bits = sum_bits(dtype, bits, filled(recipe.k_shift, dtype, from_b, from_h, 0, d, dim));
  if (t == kValue && recipe.has_v_added)
    bits = sum_bits(dtype, bits, filled(recipe.v_added, dtype, from_b, from_h, from_s, d, dim));
  return bits;
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
  return pattern_shows(call.recipe.mask.visible, at.b, at.h, at.i, at.j, call.recipe.seq_q,
                       call.recipe.seq_k);
}

// The unit at byte `within` of element n. A unit is one byte for a mask, and two bytes for every other input.
__device__ inline uint16_t input_unit(const Call& call, int t, const uint32_t (&n)[4], uint32_t within) {
  switch (t) {
    case kBias:
      return static_cast<uint16_t>(bias_at(call, n[0], n[1], n[2], n[3]) >> 8 * within);
    case kMask:
      return mask_at(call, n[0], n[1], n[2], n[3]);
    case kLengths:
      return static_cast<uint16_t>(static_cast<uint64_t>(call.recipe.lengths[n[3]]) >> 8 * within);
    default:
      return static_cast<uint16_t>(value_bits(call, t, n[0], n[1], n[2], n[3]) >> 8 * within);
  }
}

}  // namespace attnfuzz::batch
