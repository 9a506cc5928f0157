// The numbers of queries and keys.
#include <algorithm>

#include "properties/case/features/feature.h"
#include "reference/semantics.h"

namespace attnfuzz::feature {
namespace {

int64_t tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

// Lengths on, just before and just after the borders of tiles.
int64_t at_a_border(Rng& rng, int64_t tile, int64_t most_tiles) {
  return std::max<int64_t>(tile * rng.range(1, most_tiles) + rng.range(-1, 3), 0);
}

// A half, a quarter or an eighth of a tile. Warps, vectors and halves divide a tile at borders of their
// own.
int64_t part_of(Rng& rng, int64_t tile) { return std::max<int64_t>(tile >> rng.range(1, 3), 1); }

int64_t some_length(Rng& rng, int64_t tile, int64_t most_tiles) {
  enum { kBorder, kPart, kMultiple, kNone, kOne, kShort, kAny };
  switch (rng.weighted<int>(
      {{36, kBorder}, {6, kPart}, {8, kMultiple}, {4, kNone}, {4, kOne}, {28, kShort}, {18, kAny}})) {
    case kBorder:
      return at_a_border(rng, tile, most_tiles);
    case kPart:
      return tile * rng.range(0, most_tiles - 1) + part_of(rng, tile) + (rng.coin() ? 0 : rng.range(-1, 1));
    case kMultiple:
      // Multiples of the tile, or of larger tiles that exist.
      return rng.coin() ? tile * rng.range(1, most_tiles) : rng.pick<int64_t>({128, 256, 384, 512, 1024});
    case kNone:
      return 0;
    case kOne:
      return 1;
    case kShort:
      return rng.range(1, 20);
    default:
      // Each power of two equally likely.
      return rng.coin() ? rng.range(1, tile * 3 / 2) : rng.range(1, int64_t{1} << rng.range(1, 10));
  }
}

// Three KV tiles and more are drawn on purpose: there double buffers wrap round, and loops have a middle.
int64_t key_count(Rng& rng, int64_t tile) {
  if (!rng.percent(42)) return some_length(rng, tile, 2);
  if (rng.percent(12)) return tile * rng.range(2, 4) + part_of(rng, tile);
  return tile * rng.range(2, 4) + rng.range(1, 3) +
         (rng.percent(30) ? rng.range(0, std::max<int64_t>(tile - 3, 0)) : 0);
}

void draw_lengths(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  Problem& p = c.problem;
  p.seq_k = key_count(rng, context.tile_k);
  enum { kSelf, kDecode, kOther };
  switch (rng.weighted<int>({{40, kSelf}, {30, kDecode}, {30, kOther}})) {
    case kSelf:
      p.seq_q = p.seq_k;
      break;
    case kDecode:
      p.seq_q = rng.range(1, 8);
      break;
    default:
      p.seq_q = some_length(rng, context.tile_q, 3);
  }
}

constexpr auto kBothLengths = [](auto& c) { return std::tie(c.problem.seq_q, c.problem.seq_k); };
constexpr auto kQueries = [](auto& c) { return std::tie(c.problem.seq_q); };
constexpr auto kKeys = [](auto& c) { return std::tie(c.problem.seq_k); };

}  // namespace

extern constinit const Feature lengths = checked({
    .without = {kShrinkToggles, kAlternatives, kCanonicalSeeds, kMutations, kRefusals, kWords, kTidy},
    .shrink_integers = {shrink_integer<kQueries>("seq_q", IntegerKind::kQueries, 0),
                        {"seq_k", IntegerKind::kKeys, 0, [](const Case& c) { return c.problem.seq_k; },
                         [](Case& c, int64_t n) {
                           c.problem.seq_k = n;
                           if (c.problem.key_lengths) {
                             const int64_t most = most_positions(c.problem, n);
                             for (int64_t& length : *c.problem.key_lengths) length = std::min(length, most);
                           }
                         }}},
    .cost =
        [](const Case& c, Cost& cost) {
          const Problem& p = c.problem;
          cost.at(Rank::kLengths).add(Cost::saturated_add(p.seq_q, p.seq_k));
          cost.add(std::max(p.seq_q, p.seq_k));
          cost.add(p.seq_q);
        },
    .draw = {Phase::kSizes, draw_lengths},
    .crossover_groups = {{"lengths", 6, take<kBothLengths>},
                         {"seq_q", 4, take<kQueries>},
                         {"seq_k", 4, take<kKeys>}},
    .numbers =
        [](const DrawContext& context, const Case& c, auto& numbers) {
          const Problem& p = c.problem;
          // Lengths are listed three times, because loops end on them.
          for (int i = 0; i < 3; ++i) {
            numbers.push_back(
                {p.seq_q, 0, context.tile_q, p.seq_k, [](Case& x, int64_t n) { x.problem.seq_q = n; }});
            numbers.push_back(
                {p.seq_k, 0, context.tile_k, p.seq_q, [](Case& x, int64_t n) { x.problem.seq_k = n; }});
          }
        },
    .tags =
        {
            {"kv tiles >= 3", [](const Tiled& x) { return tiles_of(x.p.seq_k, x.tile_k) >= 3; }, TagUse::kBoth},
            {"query tiles >= 2", [](const Tiled& x) { return tiles_of(x.p.seq_q, x.tile_q) >= 2; }},
            {"kv tail", [](const Tiled& x) { return x.p.seq_k % x.tile_k != 0; }},
            {"kv exact tiles", [](const Tiled& x) { return x.p.seq_k > 0 && x.p.seq_k % x.tile_k == 0; }},
            {"zero length", [](const Tiled& x) { return x.p.batch == 0 || x.p.seq_q == 0 || x.p.seq_k == 0; }},
            {"sq != sk", [](const Tiled& x) { return x.p.seq_q != x.p.seq_k; }, TagUse::kBoth},
            {"length >= 2^15", [](const Tiled& x) { return std::max(x.p.seq_q, x.p.seq_k) >= 32768; }},
        },
    .illegal = [](const Case& c) -> Complaint {
      if (auto why = outside("seq_q", c.problem.seq_q, 0, kMaxSize)) return why;
      return outside("seq_k", c.problem.seq_k, 0, kMaxSize);
    },
});

}  // namespace attnfuzz::feature
