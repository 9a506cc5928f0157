#include <algorithm>

#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

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

void fit_sizes(const Aim& aim, Dice& dice, Problem& p) {
  const Tiles largest = {std::ranges::max(aim.tiles_q), std::ranges::max(aim.tiles_k)};
  fit(p, budget(dice, aim.work, p, largest), largest, dice.percent(70));
  fit_exactly(p, aim.work);
  if (dice.range(0, 9999) < 60) make_long(dice, p, aim.work);
}

}  // namespace attnfuzz
