#include "properties/data/tiles.h"

#include <algorithm>

#include "properties/case/words.h"
#include "properties/data/recipe.h"

namespace attnfuzz {
namespace {

constexpr int64_t kRemembered = int64_t{1} << 22;  // pairs
constexpr int64_t kTilePairs = int64_t{1} << 23;   // pairs that are examined for a tile map

}  // namespace

VisibilityCache::VisibilityCache(const Case& c, int64_t b, int64_t h)
    : c_(c), position_(c), b_(b), h_(h), queries_(lengths_of(c.problem, b).queries) {
  position_.problem.mask.reset();
  position_.problem.bias.reset();
  const Problem& p = c.problem;
  if (p.seq_k == 0 || p.seq_q > kRemembered / p.seq_k) return;
  pairs_.reserve(static_cast<size_t>(p.seq_q * p.seq_k));
  for (int64_t i = 0; i < p.seq_q; ++i) {
    for (int64_t j = 0; j < p.seq_k; ++j) pairs_.push_back(i < queries_ && sees(c, b, h, i, j));
  }
}

bool VisibilityCache::operator()(int64_t i, int64_t j) const {
  if (pairs_.empty()) return i < queries_ && sees(c_, b_, h_, i, j);
  return pairs_[static_cast<size_t>(i * c_.problem.seq_k + j)];
}

bool VisibilityCache::by_position(int64_t i, int64_t j) const {
  return i < queries_ && sees(position_, b_, h_, i, j);
}

std::vector<int64_t> samples(int64_t begin, int64_t end, int64_t most) {
  std::vector<int64_t> values;
  const int64_t n = end - begin;
  if (n <= 0) return values;
  const int64_t count = std::clamp<int64_t>(most, 1, n);
  for (int64_t s = 0; s < count; ++s) {
    const int64_t at = count == 1 ? begin : begin + s * (n - 1) / (count - 1);
    if (values.empty() || values.back() != at) values.push_back(at);
  }
  return values;
}

TileMap tile_map(const Case& c, const VisibilityCache& visible, int64_t tile_q, int64_t tile_k) {
  const Problem& p = c.problem;
  TileMap map;
  map.rows = (p.seq_q + tile_q - 1) / tile_q;
  map.columns = (p.seq_k + tile_k - 1) / tile_k;
  const int64_t tiles = std::max<int64_t>(map.rows * map.columns, 1);
  int64_t most = std::max(tile_q, tile_k);
  while (most > 2 && tiles * std::min(most, tile_q) * std::min(most, tile_k) > kTilePairs) most /= 2;
  map.sampled = most < std::max(std::min(tile_q, p.seq_q), std::min(tile_k, p.seq_k));
  map.states.reserve(static_cast<size_t>(tiles));
  for (int64_t r = 0; r < map.rows; ++r) {
    const auto queries = samples(r * tile_q, std::min(visible.queries(), (r + 1) * tile_q), most);
    for (int64_t t = 0; t < map.columns; ++t) {
      const auto keys = samples(t * tile_k, std::min(p.seq_k, (t + 1) * tile_k), most);
      bool all = !queries.empty(), any = false, each_row = true, reachable = false;
      for (const int64_t i : queries) {
        bool row = false;
        for (const int64_t j : keys) {
          const bool seen = visible(i, j);
          row |= seen;
          all &= seen;
        }
        any |= row;
        each_row &= row;
      }
      if (!any) {
        for (const int64_t i : queries) {
          for (size_t j = 0; j < keys.size() && !reachable; ++j) reachable = visible.by_position(i, keys[j]);
        }
      }
      map.states.push_back(all               ? TileState::kFull
                           : any && each_row ? TileState::kPartly
                           : any             ? TileState::kRowDead
                           : reachable       ? TileState::kDead
                                             : TileState::kSkipped);
    }
  }
  return map;
}

std::string ranges(const std::vector<int64_t>& values, size_t most) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < values.size();) {
    size_t end = i + 1;
    while (end < values.size() && values[end] == values[end - 1] + 1) ++end;
    if (runs.size() == most) {
      runs.push_back(cat("and ", values.size() - i, " more"));
      break;
    }
    runs.push_back(end - i == 1 ? cat(values[i]) : cat(values[i], "..", values[end - 1]));
    i = end;
  }
  return join(runs, ", ");
}

}  // namespace attnfuzz
