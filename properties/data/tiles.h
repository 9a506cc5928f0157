// The state of a tile of scores: which keys of the tile its queries see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

enum class TileState : uint8_t {
  kFull,     // every query of it sees every key of it
  kPartly,   // each query sees a key of it, and some key is hidden
  kRowDead,  // some query sees no key of it, others do: a running maximum of -inf meets -inf
  kDead,     // mask or bias hide every key of it from every query: a kernel must read them to know
  kSkipped,  // causality, window or length hide all of it: a kernel need not read anything
};

// Visible pairs of one (batch entry, head); a query that a packed entry lacks sees nothing. If there are few
// pairs, their visibility is stored; otherwise each call computes it from the recipe.
class VisibilityCache {
 public:
  VisibilityCache(const Case& c, int64_t b, int64_t h);
  bool operator()(int64_t i, int64_t j) const;
  // The same without mask and bias.
  bool by_position(int64_t i, int64_t j) const;
  // The queries of the batch entry.
  int64_t queries() const { return queries_; }

 private:
  const Case& c_;
  Case position_;  // the case without mask and bias
  int64_t b_, h_, queries_;
  std::vector<bool> pairs_;
};

struct TileMap {
  int64_t rows = 0, columns = 0;  // tiles
  std::vector<TileState> states;
  bool sampled = false;  // only some pairs of large tiles were examined
  TileState at(int64_t r, int64_t c) const { return states[static_cast<size_t>(r * columns + c)]; }
};
TileMap tile_map(const Case& c, const VisibilityCache& visible, int64_t tile_q, int64_t tile_k);

// begin..end-1, or about `most` of them including both ends.
std::vector<int64_t> samples(int64_t begin, int64_t end, int64_t most);

// "0..2, 5, 7..9" for an ascending list. At most `most` runs are spelled out.
std::string ranges(const std::vector<int64_t>& values, size_t most = 6);

}  // namespace attnfuzz
