#include "properties/draw/afford.h"

#include <algorithm>

#include "properties/case/features/domain.h"

namespace attnfuzz {
namespace {

constexpr int64_t kBlocks = 140'000;

Wide whole(int64_t n, int64_t tile) { return (static_cast<Wide>(n) + tile - 1) / tile * tile; }

// An empty batch costs as much as one entry, because laying it out visits its mask.
Wide entries(const Problem& p) { return std::max<int64_t>(p.batch, 1); }

// One tile fewer, with the same remainder in the last tile. A single tile is halved.
int64_t fewer(Rng& rng, int64_t n, int64_t tile) {
  if (n <= tile || rng.percent(20)) return n / 2;
  const int64_t tiles = (n - 1) / tile;
  return n - tile * (tiles > 8 ? tiles - tiles / 2 : 1);
}

// `weight`: how often it is tried, relative to the others. `give` returns false if there was nothing to
// give.
struct Give {
  int64_t weight;
  bool (*give)(const Tiling& tiling, Rng& rng, Problem& p);
};

constexpr Give kGives[] = {
    {14,
     [](const Tiling&, Rng&, Problem& p) {
       if (p.batch <= 1) return false;
       p.batch /= 2;
       return true;
     }},
    {14,
     [](const Tiling&, Rng& rng, Problem& p) {
       const int64_t group = p.heads_q / p.heads_kv;
       if (group <= 1) return false;
       p.heads_q = p.heads_kv * rng.range(1, std::min<int64_t>(group - 1, 16));
       return true;
     }},
    {14,
     [](const Tiling&, Rng&, Problem& p) {
       if (p.heads_kv <= 1) return false;
       p.heads_q = p.heads_q / p.heads_kv * (p.heads_kv / 2);
       p.heads_kv /= 2;
       return true;
     }},
    {14,
     [](const Tiling&, Rng& rng, Problem& p) {
       if (std::max(p.dim_qk, p.dim_v) <= 16) return false;
       const bool together = p.dim_qk == p.dim_v || rng.coin();
       int64_t& larger = p.dim_qk > p.dim_v ? p.dim_qk : p.dim_v;
       int64_t& other = p.dim_qk > p.dim_v ? p.dim_v : p.dim_qk;
       larger = std::max<int64_t>(larger / 2, 1);
       if (together) other = std::max<int64_t>(other / 2, 1);
       return true;
     }},
    {8,
     [](const Tiling&, Rng&, Problem& p) {
       if (p.num_splits <= 2) return false;
       p.num_splits /= 2;
       return true;
     }},
    {28,
     [](const Tiling& tiling, Rng& rng, Problem& p) {
       if (p.seq_q <= 1) return false;
       p.seq_q = fewer(rng, p.seq_q, tiling.q);
       return true;
     }},
    // Keys are rarely reduced, because double buffers wrap round at the third KV tile.
    {3,
     [](const Tiling& tiling, Rng& rng, Problem& p) {
       if (p.seq_k <= 1) return false;
       p.seq_k = fewer(rng, p.seq_k, tiling.k);
       return true;
     }},
};

}  // namespace

Wide exact_work(const Problem& p) { return entries(p) * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v); }

Price price(const GeneratorConfig& config, const Case& c) {
  const Problem& p = c.problem;
  const Tiling tiling = tiling_of(config, c);
  const Wide rows = entries(p) * p.heads_q;
  const Wide q = whole(p.seq_q, tiling.q), columns = 2 * whole(std::max(p.dim_qk, p.dim_v), kColumns);
  return {rows * q * whole(p.seq_k, tiling.k) * columns,
          rows * (q / tiling.q) * std::max<int64_t>(p.num_splits, 1),
          entries(p) * std::max(p.heads_q * p.seq_q, p.heads_kv * p.seq_k) * std::max(p.dim_qk, p.dim_v)};
}

Wide room(const GeneratorConfig& config, const Case& c, int64_t most_tiles) {
  const Problem& p = c.problem;
  const Tiling tiling = tiling_of(config, c);
  const auto tiles = [](int64_t n, int64_t tile) { return std::max<int64_t>((n + tile - 1) / tile, 1); };
  int64_t keys = tiles(p.seq_k, tiling.k), queries = 1, columns = kColumns;
  if (!config.domain || !says_lengths(config.domain->seq_k)) keys = std::min(keys, most_tiles);
  if (config.domain) {
    const attn_domain& d = *config.domain;
    queries = tiles(d.equal_lengths         ? keys * tiling.k
                    : says_lengths(d.seq_q) ? p.seq_q
                                            : nearest(d.seq_q, 1),
                    tiling.q);
    const int64_t dims = std::max(nearest(d.dim_qk, 1), nearest(d.dim_v, 1));
    columns = tiles(dims, kColumns) * kColumns;
  }
  return static_cast<Wide>(keys) * tiling.k * queries * tiling.q * 2 * columns;
}

Price most(const GeneratorConfig& config, const Case& c, int64_t eighths) {
  const Tiling tiling = tiling_of(config, c);
  const Wide tile = static_cast<Wide>(tiling.q) * tiling.k * 2 * kColumns;
  const Wide usual = static_cast<Wide>(config.work) * eighths / 8;
  Wide work = std::max(usual * (is_decode(c.problem) ? kTimesDecode : 1), 8 * tile);
  if (is_long(c.problem))
    work = std::max(usual * 8 * kTimesLong / kMostEighths,
                    tile * (longest(c.problem) / std::min(tiling.q, tiling.k) + 1));
  constexpr int64_t kTimesRoom = 4, kMostTiles = 4;
  return {config.domain ? std::max(work, kTimesRoom * room(config, c, kMostTiles)) : work, kBlocks,
          config.elements};
}

bool affordable(const Case& c, const GeneratorConfig& config) {
  return exact_work(c.problem) <= config.work && price(config, c) <= most(config, c);
}

namespace {

// Moves the case into the domain. False if that undoes what was given up, or costs more.
bool fits_for_less(const attn_domain& domain, const GeneratorConfig& config, const Case& c, Case& less) {
  // If the domain wants equal lengths or head dimensions, the longer one follows the shorter. With equal
  // lengths, a step that shortens only the queries is refused: both lengths shrink as rarely as keys do.
  Problem& p = less.problem;
  if (domain.equal_lengths && p.seq_k == c.problem.seq_k && p.seq_q != c.problem.seq_q) return false;
  if (domain.equal_lengths) p.seq_q = p.seq_k = std::min(p.seq_q, p.seq_k);
  if (domain.equal_dims) p.dim_qk = p.dim_v = std::min(p.dim_qk, p.dim_v);
  fit_sizes(domain, p);
  return p != c.problem && price(config, less) <= price(config, c) && exact_work(p) <= exact_work(c.problem);
}

// True if a size changed for which the domain lists values. Each value of a list should stay equally likely.
bool gives_up_said(const attn_domain& d, const Problem& a, const Problem& b) {
  return (says_lengths(d.seq_q) && a.seq_q != b.seq_q) || (says_lengths(d.seq_k) && a.seq_k != b.seq_k) ||
         (d.dim_qk.count > 1 && a.dim_qk != b.dim_qk) || (d.dim_v.count > 1 && a.dim_v != b.dim_v);
}

}  // namespace

bool give_up(const GeneratorConfig& config, Rng& rng, Case& c, const std::function<bool(const Case&)>& keeps) {
  int64_t sum = 0;
  for (const Give& give : kGives) sum += give.weight;
  constexpr int64_t kPercentSaid = 5;
  for (int tries = config.domain ? 160 : 24; tries > 0; --tries) {
    int64_t at = rng.range(0, sum - 1);
    const Give* chosen = kGives;
    while (at >= chosen->weight) at -= (chosen++)->weight;
    Case less = c;
    if (!chosen->give(tiling_of(config, c), rng, less.problem)) continue;
    if (config.domain && !fits_for_less(*config.domain, config, c, less)) continue;
    if (config.domain && gives_up_said(*config.domain, c.problem, less.problem) && !rng.percent(kPercentSaid))
      continue;
    if (!keeps(less)) continue;
    c.problem = less.problem;
    return true;
  }
  return false;
}

}  // namespace attnfuzz
