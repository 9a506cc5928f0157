#include "properties/draw/long_rows.h"

#include <algorithm>

#include "properties/draw/afford.h"

namespace attnfuzz {
namespace {

// Elements of the largest tensor. This is enough for K of 131,072 keys and 64 columns, and K and V fit into the
// slot of a batch (fuzz/batch/prepare.cc).
constexpr int64_t kElements = 9'000'000;
// Pairs of a query and a key over all heads and batch entries: a bias may hold one number for each pair.
constexpr int64_t kMostPairs = int64_t{1} << 22;
constexpr int64_t kMostBatch = 16, kMostSplits = 200;
// Elements of K if each query head had keys of its own, as the property gqa makes it.
constexpr int64_t kMostUngrouped = 6 * kElements;

// Some kernel takes another path from each of these powers of two on. Lengths beyond 16,384 are rare, because
// they cost the most.
int64_t long_keys(Rng& rng, int64_t tile) {
  const int64_t low = rng.weighted<int64_t>(
      {{18, 1024}, {18, 2048}, {13, 4096}, {21, 8192}, {24, 16384}, {3, 32768}, {2, 65536}, {1, 131072}});
  switch (rng.weighted<int>({{40, 0}, {15, 1}, {45, 2}})) {
    case 0:
      return low + rng.pick<int64_t>({-1, 0, 1, 2, 63, 64, 65});
    case 1:
      return (low / tile + rng.range(1, 8)) * tile;
    default:
      return rng.range(low, std::min<int64_t>(2 * low, 140'000) - 1);
  }
}

void draw_columns(Rng& rng, Problem& p) {
  const int64_t any = rng.range(1, 256);
  p.dim_qk = rng.weighted<int64_t>({{22, 64}, {20, 128}, {34, 256}, {8, 192}, {3, 80}, {3, 96}, {10, any}});
  p.dim_v = p.dim_qk == 192 && rng.coin() ? 128 : p.dim_qk;
}

void draw_heads(Rng& rng, Problem& p) {
  const int64_t low = rng.weighted<int64_t>({{24, 1}, {9, 2}, {11, 4}, {17, 8}, {20, 16}, {12, 32}, {7, 64}});
  const int64_t heads = low < 64 && rng.percent(25) ? rng.range(low, 2 * low - 1) : low;
  const int64_t group =
      std::min(rng.weighted<int64_t>({{35, 1}, {13, 2}, {20, 4}, {15, 8}, {17, heads}}), heads);
  p.heads_kv = heads / group;
  p.heads_q = p.heads_kv * group;
}

int64_t keys_in_all(const Problem& p) { return p.batch * p.heads_kv * p.seq_k * std::max(p.dim_qk, p.dim_v); }
int64_t ungrouped(const Problem& p) { return p.heads_q / p.heads_kv * keys_in_all(p); }
int64_t pairs(const Problem& p) { return p.batch * p.heads_q * p.seq_q * p.seq_k; }

// Reduces one number, mostly that of heads: few bugs need all heads of a case that has several.
void give_up_some(Rng& rng, int64_t least_keys, Problem& p) {
  const int64_t group = p.heads_q / p.heads_kv;
  switch (rng.weighted<int>({{70, 0}, {10, 1}, {10, 2}, {10, 3}})) {
    case 0:
      if (p.heads_kv > 1) p.heads_kv = (p.heads_kv + 1) / 2;
      p.heads_q = p.heads_kv * group;
      break;
    case 1:
      p.heads_q = p.heads_kv * std::max<int64_t>(group / 2, 1);
      break;
    case 2:
      p.dim_qk = std::max<int64_t>(p.dim_qk / 2, 1), p.dim_v = std::max<int64_t>(p.dim_v / 2, 1);
      break;
    default:
      if (p.seq_k / 2 >= least_keys) p.seq_k /= 2;
  }
}

// Draws the number of queries and the number of batch entries.
void draw_rest(const GeneratorConfig& config, Rng& rng, Problem& p) {
  // Most cases leave most of the work unused, so that a batch holds more cases.
  const int64_t work = config.work / rng.weighted<int64_t>({{6, 1}, {10, 2}, {20, 4}, {30, 8}, {34, 16}});
  const auto left = [&](int64_t by_elements) {
    const auto cost = static_cast<int64_t>(exact_work(p));
    return std::max<int64_t>(std::min({work / std::max<int64_t>(cost, 1), kMostPairs / pairs(p), by_elements}),
                             1);
  };
  const auto queries = [&] {
    const int64_t few = rng.range(3, 8), some = rng.range(9, 64), tiles = rng.range(65, 300);
    p.seq_q = std::min(rng.weighted<int64_t>({{28, 1}, {34, few}, {18, some}, {14, tiles}, {6, p.seq_k}}),
                       left(config.elements));
  };
  const auto entries = [&] {
    const int64_t few = rng.range(2, 4), some = rng.range(5, kMostBatch);
    p.batch = std::min(rng.weighted<int64_t>({{48, 1}, {36, few}, {16, some}}),
                       left(std::min(config.elements / keys_in_all(p), kMostUngrouped / ungrouped(p))));
  };
  const bool queries_first = rng.percent(60);
  if (queries_first) queries();
  entries();
  if (!queries_first) queries();
}

void draw_splits(const GeneratorConfig& config, Rng& rng, Case& c) {
  Problem& p = c.problem;
  p.num_splits = 0;
  if (!config.splits) return;
  const int64_t tiles = p.seq_k / tiling_of(config, c).k + 1;
  const int64_t few = rng.range(1, 8), some = rng.range(9, 64), many = rng.range(65, kMostSplits);
  p.num_splits = std::min(rng.weighted<int64_t>({{30, 0}, {20, few}, {25, some}, {25, many}}), tiles + 1);
}

}  // namespace

GeneratorConfig with_device_work(const GeneratorConfig& config) {
  GeneratorConfig large = config;
  large.work = std::max(config.work, config.device_work);
  large.elements = std::max(config.elements, kElements);
  return large;
}

void draw_long_rows(const GeneratorConfig& config, Rng& rng, Case& c) {
  Problem& p = c.problem;
  p.batch = p.seq_q = 1;
  p.seq_k = long_keys(rng, tiling_of(config, c).k);
  draw_columns(rng, p);
  draw_heads(rng, p);
  constexpr int64_t kLeastKeys = 1024;
  while (keys_in_all(p) > config.elements || ungrouped(p) > kMostUngrouped || pairs(p) > kMostPairs ||
         exact_work(p) > config.work)
    give_up_some(rng, kLeastKeys, p);
  draw_rest(config, rng, p);
  draw_splits(config, rng, c);
  const auto keeps = [](const Case&) { return true; };
  while (!affordable(c, config) && give_up(config, rng, c, keeps)) {
  }
}

}  // namespace attnfuzz
