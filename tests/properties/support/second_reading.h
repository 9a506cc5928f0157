// A second implementation of the masks, written independently of reference/semantics.h.
//
// It compares positions, with sums that saturate; semantics.h compares distances. The two must agree. Only
// tests use this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "properties/data/recipe.h"

namespace attnfuzz {

inline bool sees_by_second_reading(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j) {
  const auto sum = [](int64_t a, int64_t other) {
    int64_t result;
    if (!__builtin_add_overflow(a, other, &result)) return result;
    return other > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
  };
  const Problem& p = c.problem;
  // Key j stands for the keys from first to last of a longer sequence. It exists if they all do, and is visible
  // if the last one is.
  const bool blocks = p.key_step > 0;
  const int64_t first = blocks ? j * p.key_step : j, last = blocks ? first + p.key_offset : j;
  const int64_t longest = blocks ? p.seq_k * p.key_step + p.key_offset : p.seq_k;
  const int64_t length = p.key_lengths ? std::clamp<int64_t>((*p.key_lengths)[b], 0, longest) : longest;
  if (j < 0 || j >= p.seq_k || last >= length) return false;
  const int64_t diagonal = p.align == ATTN_TOP_LEFT ? i : i + length - p.seq_q;
  if (p.causal && last > diagonal) return false;
  if (p.window_left >= 0 && last < sum(diagonal, -p.window_left)) return false;
  if (p.window_right >= 0 && last > sum(diagonal, p.window_right)) return false;
  if (p.mask && !mask_at(c, b, h, i, j)) return false;
  return !p.bias || value_at(c, TensorId::kBias, b, h, i, j) != -std::numeric_limits<double>::infinity();
}

}  // namespace attnfuzz
