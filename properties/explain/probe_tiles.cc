#include "properties/explain/probe_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "kernels/attention.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

constexpr int kLanes = 32;
constexpr int64_t kMostValues = 1024;  // values of one record: tiles of 2048 columns

// The recorded values of one quantity, by lane.
using Fragments = std::array<std::vector<float>, kLanes>;

struct Key {
  int tag;
  int64_t tile;
  auto operator<=>(const Key&) const = default;
};

std::map<Key, Fragments> sort_out(std::span<const float> values, std::vector<std::string>& notes) {
  std::map<Key, Fragments> all;
  const auto integer = [](float x, int64_t most) {
    return x >= 0 && x <= static_cast<float>(most) && x == std::floor(x);
  };
  for (size_t at = 0; at + 4 <= values.size();) {
    const float tag = values[at], tile = values[at + 1], lane = values[at + 2], count = values[at + 3];
    if (!integer(tag, ATTN_PROBE_ROWS) || tag < 1 || !integer(tile, int64_t{1} << 24) ||
        !integer(lane, kLanes - 1) || !integer(count, kMostValues) ||
        at + 4 + static_cast<size_t>(count) > values.size()) {
      notes.push_back(cat("the records make no sense from the ", at, "th number on"));
      return all;
    }
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(at) + 4;
    all[{static_cast<int>(tag), static_cast<int64_t>(tile)}][static_cast<size_t>(lane)].assign(
        first, first + static_cast<std::ptrdiff_t>(count));
    at += 4 + static_cast<size_t>(count);
  }
  return all;
}

const char* name_of(int tag) {
  constexpr const char* names[] = {"", "S", "the row maximum", "the rescale factor", "P", "O", "the rows"};
  return names[tag];
}

// The number of values that each lane has. If the lanes differ, 0 and a note.
size_t count_of(const Fragments& fragments, const Key& key, size_t multiple, std::vector<std::string>& notes) {
  const size_t count = fragments[0].size();
  const bool same = std::ranges::all_of(fragments, [&](const auto& f) { return f.size() == count; });
  if (same && count > 0 && count % multiple == 0) return count;
  notes.push_back(cat("tile ", key.tile, ": the records of ", name_of(key.tag),
                      " are not those of 32 lanes with C fragments of mma.m16n8k16"));
  return 0;
}

ProbedMatrix matrix(const Fragments& fragments, const Key& key, std::vector<std::string>& notes) {
  const size_t count = count_of(fragments, key, 4, notes);
  ProbedMatrix m;
  m.columns = static_cast<int64_t>(count) * 2;
  m.values.resize(kProbedRows * static_cast<size_t>(m.columns));
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t v = 0; v < count; ++v) {
      const size_t n = v / 4, e = v % 4;
      const size_t row = lane / 4 + 8 * (e / 2), column = 8 * n + 2 * (lane % 4) + e % 2;
      m.values[row * static_cast<size_t>(m.columns) + column] = fragments[lane][v];
    }
  }
  return m;
}

std::optional<std::array<float, kProbedRows>> per_row(const Fragments& fragments, const Key& key,
                                                      std::vector<std::string>& notes) {
  if (count_of(fragments, key, 2, notes) != 2) return std::nullopt;
  std::array<float, kProbedRows> rows;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t r = 0; r < 2; ++r) {
      const size_t row = lane / 4 + 8 * r;
      const float value = fragments[lane][r];
      if (lane % 4 == 0) {
        rows[row] = value;
      } else if (std::bit_cast<uint32_t>(rows[row]) != std::bit_cast<uint32_t>(value)) {
        notes.push_back(cat("tile ", key.tile, ": of row ", row, " of the warp lane ", lane - lane % 4,
                            " holds ", rows[row], " as ", name_of(key.tag), " and lane ", lane, " holds ",
                            value));
      }
    }
  }
  return rows;
}

std::optional<std::array<ProbedQuery, kProbedRows>> queries(const Fragments& fragments, const Key& key,
                                                            std::vector<std::string>& notes) {
  if (count_of(fragments, key, 6, notes) != 6) return std::nullopt;
  std::array<ProbedQuery, kProbedRows> rows;
  for (size_t lane = 0; lane < kLanes; lane += 4) {
    for (size_t r = 0; r < 2; ++r) {
      const float* place = &fragments[lane][3 * r];
      const auto whole = [](float x) {
        return std::isfinite(x) && std::fabs(x) < 0x1p40f ? static_cast<int64_t>(x) : -1;
      };
      rows[lane / 4 + 8 * r] = {whole(place[0]), whole(place[1]), whole(place[2])};
    }
  }
  return rows;
}

}  // namespace

ProbedWarp read_probe(std::span<const float> values, uint64_t used) {
  ProbedWarp warp;
  if (used > values.size()) {
    warp.notes.push_back(
        cat("the probe's room was full: ", used - values.size(), " of ", used, " numbers are lost"));
  }
  const auto all = sort_out(values.first(std::min<size_t>(values.size(), used)), warp.notes);
  std::map<int64_t, ProbedTile> tiles;
  for (const auto& [key, fragments] : all) {
    if (key.tag == ATTN_PROBE_ROWS) {
      warp.rows = queries(fragments, key, warp.notes);
      continue;
    }
    ProbedTile& tile = tiles[key.tile];
    tile.tile = key.tile;
    switch (key.tag) {
      case ATTN_PROBE_S:
        tile.s = matrix(fragments, key, warp.notes);
        break;
      case ATTN_PROBE_P:
        tile.p = matrix(fragments, key, warp.notes);
        break;
      case ATTN_PROBE_O:
        tile.o = matrix(fragments, key, warp.notes);
        break;
      case ATTN_PROBE_ROW_MAX:
        tile.row_max = per_row(fragments, key, warp.notes);
        break;
      default:
        tile.scale = per_row(fragments, key, warp.notes);
    }
  }
  for (auto& [at, tile] : tiles) warp.tiles.push_back(std::move(tile));
  return warp;
}

}  // namespace attnfuzz
