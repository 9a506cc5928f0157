// Patterns and biases: the functions of fills.h for (query, key) pairs.
#include <limits>

#include "properties/data/bits16.h"
#include "properties/data/fills.h"
#include "properties/data/mask_values.h"

namespace attnfuzz {
namespace {

float rounded(int32_t dtype, float value) {
  return dtype == ATTN_F32 ? value : to_float(dtype, from_float(dtype, value));
}

}  // namespace

bool visible(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k) {
  return pattern_shows(pattern, b, h, i, j, seq_q, seq_k);
}

void visible_row(const Pattern& pattern, int64_t b, int64_t h, int64_t i, int64_t seq_q, int64_t seq_k,
                 uint8_t* out) {
  for (int64_t j = 0; j < seq_k; ++j) out[j] = pattern_shows(pattern, b, h, i, j, seq_q, seq_k);
}

bool visible(const Mask& mask, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k) {
  const Broadcast& all = mask.broadcast;
  return visible(mask.visible, all.batch ? 0 : b, all.head ? 0 : h, all.query ? 0 : i, j, seq_q, seq_k);
}

float bias_value(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t j, int64_t seq_q, int64_t seq_k) {
  const Broadcast& all = bias.broadcast;
  if (all.batch) b = 0;
  if (all.head) h = 0;
  if (all.query) i = 0;
  if (pattern_shows(bias.finite, b, h, i, j, seq_q, seq_k))
    return rounded(bias.dtype, mask_values::finite_bias(bias, b, h, i, j));
  return bias.kind == BiasKind::kMasking ? mask_values::lowest(bias.dtype)
                                         : -std::numeric_limits<float>::infinity();
}

void bias_row(const Bias& bias, int64_t b, int64_t h, int64_t i, int64_t seq_q, int64_t seq_k, float* out) {
  for (int64_t j = 0; j < seq_k; ++j) out[j] = bias_value(bias, b, h, i, j, seq_q, seq_k);
}

}  // namespace attnfuzz
