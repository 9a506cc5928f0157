#include <algorithm>

#include "properties/axes/axis.h"
#include "properties/case/features/domain.h"
#include "properties/draw/afford.h"
#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// The work that a case may cost. Most cases get a half or a quarter of config.work, because twice as many cases
// find more bugs than cases of twice the size. A few get 2 or 4 times as much. There is always room for four KV
// tiles of one head with 64 columns, in half of the cases for eight, and in 15 % for tiles with the case's own
// columns.
Wide budget(Rng& rng, const GeneratorConfig& config, const Case& c) {
  constexpr int64_t kMostTiles = 4;
  const int64_t eighths = rng.weighted<int64_t>({{2, 32}, {6, 16}, {16, 8}, {34, 4}, {42, 2}});
  const int64_t dim = rng.percent(15) ? std::max(c.problem.dim_qk, c.problem.dim_v) : kColumns;
  const Wide some = room(config, c, kMostTiles) * ((dim + kColumns - 1) / kColumns);
  return std::max(static_cast<Wide>(config.work) * eighths / 8, (rng.coin() ? 2 : 1) * some);
}

}  // namespace

// The case has one head and few columns, so that only the tiles of the long sequence cost work.
void draw_long(const GeneratorConfig& config, Rng& rng, Longest what, Case& c) {
  Problem& p = c.problem;
  const int64_t border = int64_t{1} << (what.reach == Longest::kSigned     ? 15
                                        : what.reach == Longest::kUnsigned ? 16
                                                                           : rng.range(9, 14));
  const int64_t length = border + rng.range(0, what.reach == Longest::kShort ? border - 1 : 70);
  const int64_t dim = rng.pick<int64_t>({1, 1, 2});
  const int64_t most = config.work / (length * 2 * dim);
  const int64_t other = std::min(rng.percent(60) ? rng.range(1, 3) : rng.range(1, 20), most);
  if (other < 1) return;
  p.seq_k = what.keys ? length : other;
  p.seq_q = what.keys ? other : length;
  p.batch = p.heads_q = p.heads_kv = 1;
  p.dim_qk = p.dim_v = dim;
}

// The case has no keys, so that the executor needs no more than a second or two.
void draw_many_heads(const GeneratorConfig& config, Rng& rng, uint64_t what, Case& c) {
  if (config.variants > 0) c.env.variant = 1;
  Problem& p = c.problem;
  const int64_t many = 65536 + rng.range(0, 1);
  p.batch = what % 3 == 1 ? many : 1;
  p.heads_kv = what % 3 == 2 ? many : 1;
  p.heads_q = what % 3 == 0 ? many : p.heads_kv;
  p.seq_q = 1;
  p.seq_k = 0;
  p.dim_qk = p.dim_v = 8;
  p.num_splits = 0;
}

void fit_sizes(const GeneratorConfig& config, Rng& rng, Case& c, std::span<const AxisRequest> row,
               int64_t percent_dear) {
  const auto is = [&](const AxisRequest& one, const Case& of) {
    const Tiling tiling = tiling_of(config, of);
    return axes()[one.axis].of({of, of.problem, tiling.q, tiling.k, of.problem.num_splits}) == one.at;
  };
  std::vector<AxisRequest> held;
  std::ranges::copy_if(row, std::back_inserter(held), [&](const AxisRequest& one) {
    return axes()[one.axis].phase == Phase::kSizes && is(one, c);
  });
  const Wide most = budget(rng, config, c);
  const auto fits = [&](Wide work) { return affordable(c, config) && price(config, c).work <= work; };
  const auto give_up_but = [&](std::span<const AxisRequest> these, Wide work) {
    const auto keeps = [&](const Case& less) {
      return std::ranges::all_of(these, [&](const AxisRequest& one) { return is(one, less); });
    };
    while (!fits(work) && give_up(config, rng, c, keeps)) {
    }
  };
  give_up_but(held, most);
  // The requested classes may cost more than the budget. percent_dear of the cases may then cost as much as the
  // largest budget, the others config.work. Beyond that, requests are dropped at random.
  const Wide at_most =
      std::max<Wide>(most, rng.percent(percent_dear) ? config.work * kMostEighths / 8 : config.work);
  while (!held.empty() && !fits(at_most)) {
    held.erase(held.begin() + rng.range(0, static_cast<int64_t>(held.size()) - 1));
    give_up_but(held, held.empty() ? most : at_most);
  }
  Problem& p = c.problem;
  if (!affordable(c, config)) p.batch = p.heads_q = p.heads_kv = p.seq_q = 1;
  while (!affordable(c, config)) p.seq_k /= 2;
  if (config.domain) fit_sizes(*config.domain, p);
}

}  // namespace attnfuzz
