#include "reference/call/row_sample.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/random.h"

namespace attnfuzz {
namespace {

// The row space's number of existing row n, counted in the order (b, h, i).
int64_t present_row(const RowSpace& space, const EntryRows& entries, int64_t n) {
  if (!entries.packed()) return n;
  // An entry of L rows that begins at row F of the packed tensor has the numbers from F * heads up to (F + L) *
  // heads.
  const int64_t heads = space.heads(), stored = n / heads;
  const StoredRow place = *entries.owner({0, stored});
  const int64_t in_entry = n - (stored - place.row) * heads, length = entries.length(place.entry);
  return space.of(place.entry, in_entry / length, in_entry % length);
}

// The first row of a head and the number of its rows.
struct Head {
  int64_t first, length;
};

}  // namespace

int64_t rows_present(const RowSpace& space, const EntryRows& entries) {
  return entries.packed() ? space.heads() * entries.owned() : space.count();
}

std::vector<int64_t> sampled_rows(const RowSpace& space, const EntryRows& entries, int64_t tile,
                                  RowSample sample) {
  const int64_t present = rows_present(space, entries);
  std::vector<int64_t> chosen;
  if (sample.limit <= 0 || sample.limit >= present) {
    chosen.resize(static_cast<size_t>(space.count()));
    std::iota(chosen.begin(), chosen.end(), 0);
    return chosen;
  }
  std::unordered_set<int64_t> seen;
  const auto add = [&](int64_t row, int64_t limit) {
    if (static_cast<int64_t>(chosen.size()) < limit && seen.insert(row).second) chosen.push_back(row);
  };
  SplitMix64 bits{sample.seed};
  const auto random = [&](int64_t below) { return bits.below(below); };
  const auto row = [&](int64_t n) { return present_row(space, entries, n); };
  // A random head; of packed entries, that of a random row, so that long entries are chosen more often.
  const auto head = [&]() -> Head {
    if (!entries.packed()) return {random(space.count() / space.queries()) * space.queries(), space.queries()};
    const Row at = space.at(row(random(present)));
    return {space.of(at.b, at.h, 0), entries.length(at.b)};
  };

  add(row(0), sample.limit);
  add(row(present - 1), sample.limit);
  for (int64_t k = 0; tile > 0 && k < sample.limit / 4; ++k) {
    // Takes the first borders, then random ones; each in a random head.
    const std::optional<Head> packed = entries.packed() ? std::optional(head()) : std::nullopt;
    const int64_t length = packed ? packed->length : space.queries(), tiles = length / tile;
    if (tiles == 0) continue;
    const int64_t border = tile * (k < 4 ? 1 + k % tiles : 1 + random(tiles));
    const int64_t first = packed ? packed->first : head().first;
    add(first + border - 1, sample.limit / 2);
    if (border < length) add(first + border, sample.limit / 2);
  }
  while (static_cast<int64_t>(chosen.size()) < sample.limit) add(row(random(present)), sample.limit);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<int64_t> sampled_rows(const attn_problem& problem, const attn_tensors& host, int64_t tile_q,
                                  RowSample sample) {
  return sampled_rows(RowSpace(problem), Sequences(problem, host).queries, tile_q, sample);
}

}  // namespace attnfuzz
