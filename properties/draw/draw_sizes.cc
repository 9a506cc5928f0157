#include <algorithm>

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// On, just before and just after the borders of tiles.
int64_t at_a_border(Dice& dice, int64_t tile, int64_t most_tiles) {
  return std::max<int64_t>(tile * dice.range(1, most_tiles) + dice.range(-1, 3), 0);
}

// A half, a quarter or an eighth of a tile: what is divided among warps, vectors
// or halves has borders of its own.
int64_t part_of(Dice& dice, int64_t tile) { return std::max<int64_t>(tile >> dice.range(1, 3), 1); }

int64_t some_length(Dice& dice, int64_t tile, int64_t most_tiles) {
  enum { kBorder, kPart, kMultiple, kNone, kOne, kShort, kAny };
  switch (dice.weighted<int>(
      {{36, kBorder}, {6, kPart}, {8, kMultiple}, {4, kNone}, {4, kOne}, {28, kShort}, {18, kAny}})) {
    case kBorder:
      return at_a_border(dice, tile, most_tiles);
    case kPart:
      return tile * dice.range(0, most_tiles - 1) + part_of(dice, tile) + (dice.coin() ? 0 : dice.range(-1, 1));
    case kMultiple:
      return tile * dice.range(1, most_tiles);
    case kNone:
      return 0;
    case kOne:
      return 1;
    case kShort:
      return dice.range(1, 20);
    default:
      return dice.range(1, tile * 3 / 2);
  }
}

// Three KV tiles or more is where double buffers wrap round and the middle of a
// loop shows: drawn on purpose.
int64_t key_count(Dice& dice, int64_t tile) {
  if (!dice.percent(42)) return some_length(dice, tile, 2);
  if (dice.percent(12)) return tile * dice.range(2, 4) + part_of(dice, tile);
  return tile * dice.range(2, 4) + dice.range(1, 3) + (dice.percent(30) ? dice.range(0, tile - 3) : 0);
}

int64_t head_dim(Dice& dice) {
  enum { kUsual, kSmall, kOdd, kLarge };
  switch (dice.weighted<int>({{52, kUsual}, {26, kSmall}, {16, kOdd}, {6, kLarge}})) {
    case kUsual:
      return dice.pick<int64_t>({16, 32, 64, 64, 64, 128});
    case kSmall:
      return dice.range(1, 16);
    case kOdd:
      return dice.pick<int64_t>({17, 24, 33, 40, 63, 65, 72, 80, 96, 127});
    default:
      return dice.pick<int64_t>({129, 160, 192, 250, 255, 256});
  }
}

int64_t padded(int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; }

// What a kernel is compiled for: it pays for tiles whole, and for the next
// multiple of 64 columns, so a shorter row or a smaller head buys nothing.
constexpr int64_t kColumns = 64;

struct Tiles {
  int64_t q, k;
  int64_t cost() const { return q * k * 2 * kColumns; }
};

int64_t cost(const Problem& p, const Tiles& tiles) {
  return p.batch * p.heads_q * padded(p.seq_q, tiles.q) * padded(p.seq_k, tiles.k) * 2 *
         padded(std::max(p.dim_qk, p.dim_v), kColumns);
}

void halve_dims(Problem& p) {
  p.dim_qk = std::max<int64_t>(p.dim_qk / 2, 1);
  p.dim_v = std::max<int64_t>(p.dim_v / 2, 1);
}

// Gives up what is cheap to give up until the case fits: first what there is
// much of, then either heads or queries, head dimensions, and keys last.
void fit(Problem& p, int64_t budget, const Tiles& tiles, bool keep_heads) {
  const auto too_much = [&] { return cost(p, tiles) > budget; };
  const auto fewer_heads = [&](int64_t most) {
    if (too_much() && p.heads_kv > 1) {
      p.heads_q /= p.heads_kv;
      p.heads_kv = 1;
    }
    if (too_much()) p.heads_q = std::min(p.heads_q, most);
  };
  const auto fewer_queries = [&](int64_t most) {
    while (too_much() && p.seq_q > most) p.seq_q = std::max(most, p.seq_q / 2);
  };
  if (too_much()) p.batch = std::min<int64_t>(p.batch, 2);
  fewer_heads(3);
  fewer_queries(tiles.q + 1);
  if (too_much()) p.batch = 1;
  if (!keep_heads) fewer_heads(1);
  if (too_much() && p.seq_q > tiles.q) p.seq_q -= tiles.q;
  while (too_much() && std::max(p.dim_qk, p.dim_v) > kColumns) halve_dims(p);
  fewer_heads(2);
  fewer_heads(1);
  while (too_much() && p.seq_k > tiles.k) p.seq_k = std::max(tiles.k, p.seq_k / 2);
}

// As fit() may have let whole tiles be more than the work, the multiply-adds
// that the case itself asks for are held to it.
void fit_exactly(Problem& p, int64_t work) {
  const auto too_much = [&] { return p.batch * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v) > work; };
  while (too_much() && std::max(p.dim_qk, p.dim_v) > 1) halve_dims(p);
  while (too_much() && p.seq_q > 1) p.seq_q /= 2;
  while (too_much() && p.seq_k > 1) p.seq_k /= 2;
  if (too_much()) p.batch = p.heads_q = p.heads_kv = 1;
}

// Most cases leave most of the work unused: twice as many cases find more than
// cases of twice the size. A few are larger, counted in whole tiles; there is
// always room for four KV tiles, and half the time for those of two heads or
// query tiles.
int64_t budget(Dice& dice, int64_t work, const Problem& p, const Tiles& tiles) {
  const int64_t eighths = dice.weighted<int64_t>({{10, 16}, {22, 8}, {36, 4}, {32, 2}});
  const int64_t kv_tiles = std::clamp<int64_t>(padded(p.seq_k, tiles.k) / tiles.k, 1, 4);
  return std::max(work * eighths / 8, (dice.coin() ? 2 : 1) * kv_tiles * tiles.cost());
}

// One sequence longer than 16 bits can count, signed or not, and the other short.
// One head and few columns: what it costs is the tiles of that one length.
void make_long(Dice& dice, Problem& p, int64_t work) {
  const int64_t border = int64_t{1} << (dice.percent(75) ? 15 : 16);
  const int64_t length = border + dice.range(0, 70), dim = dice.pick<int64_t>({1, 1, 2});
  const int64_t most = work / (length * 2 * dim);
  const int64_t other = std::min(dice.percent(60) ? dice.range(1, 3) : dice.range(1, 20), most);
  const bool keys = dice.coin();
  if (other < 1) return;
  p.seq_k = keys ? length : other;
  p.seq_q = keys ? other : length;
  p.batch = p.heads_q = p.heads_kv = 1;
  p.dim_qk = p.dim_v = dim;
}

}  // namespace

int64_t a_tile(Dice& dice, const std::vector<int64_t>& tiles) {
  return dice.percent(80) ? tiles.front() : dice.pick<int64_t>(tiles);
}

// Without keys, so that it costs the executor no more than a second or two.
void draw_many_heads(Dice& dice, Case& c) {
  Problem& p = c.problem;
  const int64_t many = 65536 + dice.range(0, 1);
  const bool heads = dice.coin();
  p.batch = heads ? 1 : many;
  p.heads_q = heads ? many : 1;
  p.heads_kv = heads && dice.coin() ? many : 1;
  p.seq_q = 1;
  p.seq_k = 0;
  p.dim_qk = p.dim_v = 8;
  p.num_splits = 0;
}

void draw_sizes(const Aim& aim, Dice& dice, Case& c) {
  Problem& p = c.problem;
  const int64_t tile_q = a_tile(dice, aim.tiles_q), tile_k = a_tile(dice, aim.tiles_k);
  p.dtype = dice.coin() ? ATTN_F16 : ATTN_BF16;
  p.seq_k = key_count(dice, tile_k);
  enum { kSelf, kDecode, kOther };
  switch (dice.weighted<int>({{40, kSelf}, {30, kDecode}, {30, kOther}})) {
    case kSelf:
      p.seq_q = p.seq_k;
      break;
    case kDecode:
      p.seq_q = dice.range(1, 8);
      break;
    default:
      p.seq_q = some_length(dice, tile_q, 3);
  }
  p.dim_qk = head_dim(dice);
  p.dim_v = dice.percent(75) ? p.dim_qk : head_dim(dice);
  p.batch = dice.weighted<int64_t>({{72, 1}, {20, 2}, {7, 3}, {1, 0}});
  p.heads_kv = dice.weighted<int64_t>({{70, 1}, {22, 2}, {8, 3}});
  p.heads_q = p.heads_kv * dice.weighted<int64_t>({{68, 1}, {11, 2}, {9, 3}, {6, 7}, {6, 8}});
  if (aim.splits && !dice.percent(30)) {
    const int64_t tiles = p.seq_k / tile_k + 1;
    p.num_splits = dice.percent(80) ? dice.range(1, tiles + 1) : tiles + dice.range(1, 40);
  }
  const Tiles largest = {std::ranges::max(aim.tiles_q), std::ranges::max(aim.tiles_k)};
  fit(p, budget(dice, aim.work, p, largest), largest, dice.percent(70));
  fit_exactly(p, aim.work);
  const int64_t rare = dice.range(0, 9999);
  if (rare < 60) make_long(dice, p, aim.work);
}

}  // namespace attnfuzz
