// The meaning of a problem: which keys a query may see, and what its score with one of them is.
//
// It is kernels/attention.h in code, stated once. The oracles on the host and on a GPU, recipes, batches,
// traces and pictures call it, and an exported C++ program contains this text. Kernels have their own code,
// and tests have a second implementation (tests/properties/support/second_reading.h).
//
//   const Lengths length = entry_lengths(p, p.seq_q, p.seq_k, key_lengths[b]);
//   if (visible(p, length, i, j) && mask[j] != 0 && !hides(bias[j])) x = score(p, dot(q, k[j]), bias[j]);
//   if (p.has_alibi) x += alibi(p, slope, length, i, j);
//
// A Problem is attn_problem, or a struct that has its fields under the same names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/both.h"
#include "kernels/attention.h"

namespace attnfuzz {

// A window may be as large as an int64_t, so sums saturate.
ATTN_BOTH inline int64_t saturating_sum(int64_t a, int64_t b) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  if (b > 0) return a > kMost - b ? kMost : a + b;
  return a < kLeast - b ? kLeast : a + b;
}

// True if each key stands for a block of keys (ATTN_FEATURE_KEY_STEP). A compression uses the same fields, but
// its keys stand for themselves.
template <class Problem>
ATTN_BOTH bool has_key_blocks(const Problem& p) {
  return p.key_step > 0 && (p.features & ATTN_FEATURE_NSA_COMPRESS) == 0;
}

// The position of key j: that of the last key of its block, or j itself.
template <class Problem>
ATTN_BOTH int64_t position(const Problem& p, int64_t j) {
  return has_key_blocks(p) ? j * p.key_step + p.key_offset : j;
}

// The number of keys, from key 0 on, whose positions are below `end`. There may be fewer keys in the entry.
template <class Problem>
ATTN_BOTH int64_t keys_below(const Problem& p, int64_t end) {
  if (!has_key_blocks(p)) return end < 0 ? 0 : end;
  return end <= p.key_offset ? 0 : (end - p.key_offset - 1) / p.key_step + 1;
}

// Calls visit(j, share) for each block of `block` positions that key c overlaps: `share` is the part of the key's weight
// that the block's score gets (ATTN_FEATURE_NSA_SCORE).
template <class Problem, class Visit>
void for_each_block(const Problem& p, int64_t block, int64_t c, Visit visit) {
  const int64_t first = c * p.key_step, end = first + p.key_offset + 1;
  for (int64_t j = first / block; j * block < end; ++j) {
    const int64_t common = std::min(end, (j + 1) * block) - std::max(first, j * block);
    visit(j, static_cast<double>(common) / static_cast<double>(p.key_step));
  }
}

// The numbers of queries and keys of a batch entry, and its length in positions. If keys stand for blocks, the
// length is that of the sequence that the blocks are taken from; otherwise it is the number of keys.
//
// Functions that take only a number of keys assume that the entry has all seq_q queries, and no key blocks.
struct Lengths {
  int64_t queries = 0, keys = 0, positions = 0;

  Lengths() = default;
  ATTN_BOTH Lengths(int64_t of_queries, int64_t of_keys) : Lengths(of_queries, of_keys, of_keys) {}
  ATTN_BOTH Lengths(int64_t of_queries, int64_t of_keys, int64_t of_positions)
      : queries(of_queries), keys(of_keys), positions(of_positions) {}
};

// The largest length, in positions, of an entry with room for this many keys.
template <class Problem>
ATTN_BOTH int64_t most_positions(const Problem& p, int64_t room) {
  return has_key_blocks(p) ? room * p.key_step + p.key_offset : room;
}

// The lengths of an entry with room for `room` keys: without key_lengths, and with the key length `stated`.
template <class Problem>
ATTN_BOTH Lengths entry_lengths(const Problem& p, int64_t queries, int64_t room) {
  return {queries, room, most_positions(p, room)};
}
template <class Problem>
ATTN_BOTH Lengths entry_lengths(const Problem& p, int64_t queries, int64_t room, int64_t stated) {
  const int64_t most = most_positions(p, room), positions = stated < 0 ? 0 : stated < most ? stated : most;
  return {queries, keys_below(p, positions), positions};
}

// The position on query i's diagonal. It may lie outside of the entry.
template <class Problem>
ATTN_BOTH int64_t diagonal(const Problem& p, Lengths of, int64_t i) {
  return p.align == ATTN_BOTTOM_RIGHT ? i + of.positions - of.queries : i;
}
template <class Problem>
ATTN_BOTH int64_t diagonal(const Problem& p, int64_t keys, int64_t i) {
  return diagonal(p, Lengths{p.seq_q, keys}, i);
}

// [first, last), possibly empty.
struct KeyRange {
  int64_t first;
  int64_t last;
};

// The keys that query i sees by length, causality and window.
template <class Problem>
ATTN_BOTH KeyRange key_range(const Problem& p, Lengths of, int64_t i) {
  const int64_t diag = diagonal(p, of, i);
  int64_t right = p.window_right < 0 ? std::numeric_limits<int64_t>::max() : p.window_right;
  if (p.causal) right = std::min<int64_t>(right, 0);
  KeyRange range{0, of.keys};
  if (p.window_left >= 0) range.first = keys_below(p, saturating_sum(diag, -p.window_left));
  range.last = std::min(range.last, keys_below(p, saturating_sum(saturating_sum(diag, right), 1)));
  range.last = std::max(range.last, range.first);
  return range;
}
template <class Problem>
ATTN_BOTH KeyRange key_range(const Problem& p, int64_t keys, int64_t i) {
  return key_range(p, Lengths{p.seq_q, keys}, i);
}

// True if query i sees key j by length, causality and window, for any j.
template <class Problem>
ATTN_BOTH bool visible(const Problem& p, Lengths of, int64_t i, int64_t j) {
  if (j < 0 || j >= of.keys) return false;
  const int64_t away = position(p, j) - diagonal(p, of, i);
  if (p.causal && away > 0) return false;
  if (p.window_left >= 0 && away < -p.window_left) return false;
  return p.window_right < 0 || away <= p.window_right;
}
template <class Problem>
ATTN_BOTH bool visible(const Problem& p, int64_t keys, int64_t i, int64_t j) {
  return visible(p, Lengths{p.seq_q, keys}, i, j);
}

// A bias of -infinity hides its key like a mask. A NaN does not: it must make the result NaN.
ATTN_BOTH inline bool hides(double bias) { return bias == -std::numeric_limits<double>::infinity(); }

// A scaled product x under a softcap c: c tanh(x / c), and the tanh.
struct Capped {
  double value;
  double tanh;
};
ATTN_BOTH inline Capped capped(double c, double x) {
  const double t = std::tanh(x / c);
  return {c * t, t};
}

// The distance of key j from query i's diagonal. A problem with slopes has no key blocks.
template <class Problem>
ATTN_BOTH int64_t distance(const Problem& p, Lengths of, int64_t i, int64_t j) {
  const int64_t away = diagonal(p, of, i) - j;
  return away < 0 ? -away : away;
}
// Returns the term that a slope adds to the score of a pair.
template <class Problem>
ATTN_BOTH double alibi(const Problem& p, double slope, Lengths of, int64_t i, int64_t j) {
  return -slope * static_cast<double>(distance(p, of, i, j));
}
template <class Problem>
ATTN_BOTH double alibi(const Problem& p, double slope, int64_t keys, int64_t i, int64_t j) {
  return alibi(p, slope, Lengths{p.seq_q, keys}, i, j);
}

// The score of a pair with the product q.k. `bias` is 0 if there is none.
template <class Problem>
ATTN_BOTH double score(const Problem& p, double product, double bias) {
  const double scaled = p.scale * product;
  return (p.softcap > 0 ? capped(p.softcap, scaled).value : scaled) + bias;
}

}  // namespace attnfuzz
