// Assembles a probe's records: from fragments to tiles.
//
// A probed kernel leaves records lane by lane, in the order in which its threads came (attention.h,
// attn_probe). The records of one warp become matrices of its 16 rows, one for each KV tile.
//
//   const ProbedWarp warp = read_probe(reply.probe->values, reply.probe->used);
//   warp.tiles[0].s.at(3, 17)   // score of the warp's row 3 and the tile's key 17
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attnfuzz {

inline constexpr int kProbedRows = 16;

// Row-major, kProbedRows x columns; no columns: not recorded.
struct ProbedMatrix {
  int64_t columns = 0;
  std::vector<float> values;
  float at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * columns + column)]; }
};

struct ProbedTile {
  int64_t tile = 0;
  ProbedMatrix s, p, o;
  std::optional<std::array<float, kProbedRows>> row_max, scale;
};

struct ProbedQuery {
  int64_t b = 0, h = 0, i = -1;  // i < 0: the row lies behind the last query
};

struct ProbedWarp {
  std::optional<std::array<ProbedQuery, kProbedRows>> rows;
  std::vector<ProbedTile> tiles;  // ascending
  // Contradictions, in words: lost records, lanes that disagree on a row's maximum, a layout that is not mma's.
  std::vector<std::string> notes;
};

// `values`: the numbers that were kept; `used`: how many the kernel wanted to write. The kernel wrote both, so
// neither is trusted.
ProbedWarp read_probe(std::span<const float> values, uint64_t used);

}  // namespace attnfuzz
