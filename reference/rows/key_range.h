// The keys that a query may see by position: length, causality, window.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/attention.h"
#include "reference/numbers/both.h"

namespace attnfuzz {

// A window may be as large as an int64_t, so sums saturate.
ATTN_BOTH inline int64_t saturating_sum(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  if (b > 0) return a > kMost - b ? kMost : a + b;
  return a < kLeast - b ? kLeast : a + b;
}

ATTN_BOTH inline int64_t diagonal(const attn_problem& problem, int64_t length, int64_t i) {
  return problem.align == ATTN_BOTTOM_RIGHT ? i + length - problem.seq_q : i;
}

// [first, last), possibly empty.
struct KeyRange {
  int64_t first;
  int64_t last;
};

// The range of query i among `length` keys.
ATTN_BOTH inline KeyRange key_range(const attn_problem& problem, int64_t length, int64_t i) {
  const int64_t diag = diagonal(problem, length, i);
  int64_t right = problem.window_right < 0 ? std::numeric_limits<int64_t>::max() : problem.window_right;
  if (problem.causal) right = std::min<int64_t>(right, 0);
  KeyRange range{0, length};
  if (problem.window_left >= 0) range.first = std::max(range.first, saturating_sum(diag, -problem.window_left));
  range.last = std::min(range.last, saturating_sum(saturating_sum(diag, right), 1));
  range.last = std::max(range.last, range.first);
  return range;
}

}  // namespace attnfuzz
