// The values of one call that a census counts.
#pragma once

#include <algorithm>
#include <cmath>

#include "properties/case/places/pages.h"
#include "properties/data/recipe.h"

namespace attnfuzz::census {

inline int64_t tiles_of(int64_t n, int64_t tile) { return tile > 0 ? (n + tile - 1) / tile : 0; }
inline int64_t dim(const Case& c) { return std::min(c.problem.dim_qk, c.problem.dim_v); }
inline int64_t group(const Case& c) { return c.problem.heads_q / std::max<int64_t>(c.problem.heads_kv, 1); }
inline bool is_long(const Case& c) {
  return c.problem.seq_k >= 1024 && c.problem.batch > 0 && c.problem.seq_q > 0;
}

inline int causal(const Case& c, const attn_plan&) {
  return !c.problem.causal ? 0 : c.problem.align == ATTN_TOP_LEFT ? 1 : 2;
}
inline int window(const Case& c, const attn_plan&) {
  return (c.problem.window_left >= 0 ? 1 : 0) + (c.problem.window_right >= 0 ? 2 : 0);
}

inline int key_lengths(const Case& c, const attn_plan&) {
  const Problem& p = c.problem;
  if (!p.key_lengths || p.key_lengths->empty()) return 0;
  const int64_t shortest = *std::ranges::min_element(*p.key_lengths);
  return shortest <= 0 ? 3 : shortest < most_positions(p, p.seq_k) ? 2 : 1;
}

// Returns 1 for packed queries plus 2 for packed keys.
inline int packed_sides(const Case& c, const attn_plan&) {
  return (c.problem.packed_q ? 1 : 0) + (c.problem.packed_k ? 2 : 0);
}

// The class of the packed entries' lengths: 1 all are 0, 2 some are, 3 they differ, 4 they are equal; 0:
// nothing is packed. If both sides are packed, the keys' lengths count.
inline int packed_lengths(const Case& c, const attn_plan&) {
  const Problem& p = c.problem;
  const std::optional<Packing>& side = p.packed_k ? p.packed_k : p.packed_q;
  if (!side || side->lengths.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(side->lengths);
  if (most <= 0) return 1;
  return least <= 0 ? 2 : least < most ? 3 : 4;
}

// Rows behind the last packed entry, in the side that has more of them.
inline double packed_slack(const Case& c, const attn_plan&) {
  const auto of = [](const std::optional<Packing>& side) { return side ? side->slack : 0; };
  return static_cast<double>(std::max(of(c.problem.packed_q), of(c.problem.packed_k)));
}

// The keys of a page; 0: there are no pages.
inline double page_size(const Case& c, const attn_plan&) {
  return c.problem.paging ? static_cast<double>(c.problem.paging->size) : 0;
}

// The last page of the entry with the most keys: 1 one key is missing, 2 it is full, 3 it has one key, 4 it has
// others; 0: there are no pages, or no keys.
inline int last_page(const Case& c, const attn_plan&) {
  const Problem& p = c.problem;
  int64_t most = 0;
  for (int64_t b = 0; p.paging && b < p.batch; ++b) most = std::max(most, key_length(p, b));
  if (most == 0) return 0;
  const int64_t size = p.paging->size, rest = most % size;
  return rest == 0 ? 2 : rest == 1 ? 3 : rest + 1 == size ? 1 : 4;
}

// 1: pages lie in order, 2: they are shuffled, 3: their ids exceed 16 bits; 0: there are none.
inline int page_ids(const Case& c, const attn_plan&) {
  if (!c.problem.paging) return 0;
  return page_count(c.problem) > int64_t{1} << 16 ? 3 : c.problem.paging->order == 0 ? 1 : 2;
}

inline bool hides_nothing(const Case& c) {
  const Problem& p = c.problem;
  const bool shorter = key_lengths(c, {}) > 1;
  const bool bias_hides =
      p.bias && (p.bias->finite.kind != PatternKind::kAll || p.bias->kind == BiasKind::kMasking);
  return !p.causal && window(c, {}) == 0 && !p.mask && !shorter && !bias_hides;
}

inline int bias_shape(const Case& c, const attn_plan&) {
  if (!c.problem.bias) return 0;
  const Broadcast& b = c.problem.bias->broadcast;
  if (b.query) return 5;
  return 1 + (b.batch ? 1 : 0) + (b.head ? 2 : 0);
}

// The largest |bias| of a sample, spread evenly along each dimension. -inf hides a key, so it does not count.
inline double largest_bias(const Case& c) {
  const Problem& p = c.problem;
  if (!p.bias) return 0;
  const auto step = [](int64_t n) { return std::max<int64_t>(n / 16, 1); };
  double largest = 0;
  for (int64_t b = 0; b < p.batch; b += 1 + p.batch / 2) {
    for (int64_t h = 0; h < p.heads_q; h += 1 + p.heads_q / 2) {
      for (int64_t i = 0; i < p.seq_q; i += step(p.seq_q)) {
        for (int64_t j = 0; j < p.seq_k; j += step(p.seq_k)) {
          const double bias = std::abs(double{bias_at(c, b, h, i, j)});
          if (std::isfinite(bias)) largest = std::max(largest, bias);
        }
      }
    }
  }
  return largest;
}

// The number of splits that get at least one tile of the longest sequence, if keys are cut by whole
// tiles.
inline int64_t splits_with_tiles(const Case& c, const attn_plan& plan) {
  int64_t keys = 0;
  for (int64_t b = 0; b < c.problem.batch; ++b) keys = std::max(keys, key_length(c.problem, b));
  return tiles_of(tiles_of(keys, plan.tile_k), std::max<int64_t>(plan.split_tiles, 1));
}

// The layout of Q, K, V and O: 0 all are dense with heads before positions, 1 all are dense with positions
// before heads, 2 anything else.
inline int layout(const Case& c, const attn_plan&) {
  int common = -1;
  for (const TensorId t : kMatrixTensors) {
    const TensorLayout& l = c.layout[static_cast<size_t>(t)];
    const std::array<uint8_t, 3> heads_first = {0, 1, 2}, positions_first = {0, 2, 1};
    const bool dense = l.row_gap == 0 && l.spread == 0 && !l.scattered() && l.backwards == 0;
    const int is = !dense ? 2 : l.order == heads_first ? 0 : l.order == positions_first ? 1 : 2;
    if (is == 2 || (common >= 0 && common != is)) return 2;
    common = is;
  }
  return common;
}

}  // namespace attnfuzz::census
