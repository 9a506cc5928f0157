// The values of a recipe: functions of a counter in exact arithmetic, the same on every machine for ever. A
// change of meaning gets a new version.
//
//   fill_bits({.kind = FillKind::kPosition}, ATTN_F16, b, h, s, d, dim)   // one element
//   fill_bits32({.kind = FillKind::kPosition}, b, h, s, d, dim)           // one element of an fp32 tensor
//   fill_row(fill, ATTN_F16, b, h, s, dim, out)                           // a row of `dim` elements, fast
#pragma once

#include "properties/case/case.h"
#include "properties/data/fill_values.h"
#include "properties/data/fill_values32.h"
#include "properties/data/fill_values8.h"

namespace attnfuzz {

// Writes a whole row of `dim` elements of dtype, as fill_bits(), fill_bits32() or fill_bits8() would.
void fill_row(const Fill& fill, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t dim, void* out);

// True if `pattern` lets query i see key j.
bool visible(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k);
// visible() for keys 0..seq_k-1 of one query: 1 if visible, else 0.
void visible_row(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t seq_q, int64_t seq_k,
                 uint8_t* out);

// True if the mask lets query i see key j. Broadcast dimensions are read at index 0.
bool visible(const Mask& mask, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k);

// The value of a bias, as fp32; the bias's dtype represents it exactly. -inf where the key is hidden. Broadcast
// dimensions are read at index 0.
float bias_value(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k);
// bias_value() for keys 0..seq_k-1 of one query.
void bias_row(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t seq_q, int64_t seq_k, float* out);

}  // namespace attnfuzz
