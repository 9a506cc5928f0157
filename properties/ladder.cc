#include "properties/ladder.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "properties/passes.h"

namespace attnfuzz {
namespace {

using Rung = std::pair<std::vector<int64_t>, Case>;
using Form = std::function<void(Case&)>;

Fill of(FillKind kind, int exponent = 0) { return {.kind = kind, .exponent = exponent}; }

// Scores that differ from key to key in every way a fill knows, values that do
// not; then values that tell keys apart.
std::vector<Data> all_data() {
  const Fill one;
  std::vector<Data> all(regimes().begin(), regimes().end());
  for (const FillKind kind : {FillKind::kOneHot, FillKind::kSmallInt, FillKind::kPosition, FillKind::kUniform,
                              FillKind::kGaussian, FillKind::kBlocks}) {
    for (const int exponent : {0, 4}) all.push_back({of(FillKind::kConstant, exponent), of(kind), one});
  }
  for (const FillKind kind : {FillKind::kSmallInt, FillKind::kPosition, FillKind::kGaussian}) {
    all.push_back({of(kind), of(kind), one});
    all.push_back({one, one, of(kind)});
  }
  return all;
}

// Random scores of one dim: one of them has its largest where it is looked for,
// for instance in the last tile.
std::vector<Data> random_scores() {
  constexpr uint64_t kSeeds = 32;
  const Fill one;
  std::vector<Data> all;
  for (const FillKind kind :
       {FillKind::kSmallInt, FillKind::kUniform, FillKind::kNegative, FillKind::kGaussian, FillKind::kBlocks}) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Fill k = of(kind);
      k.seed = seed;
      all.push_back({of(FillKind::kConstant, 4), k, one});
    }
  }
  return all;
}

// Enough to see a feature misread: nothing told apart, keys told apart by
// value, and by score too.
std::vector<Data> few_data() {
  const Fill one;
  return {{one, one, one}, {one, one, of(FillKind::kPosition)}, regimes()[1]};
}

// One canonical form of each.
std::vector<Form> forms(const Borders& tiles) {
  std::vector<Form> all;
  for (const PatternKind kind : {PatternKind::kNothing, PatternKind::kFirstKey, PatternKind::kLastKey}) {
    all.push_back([=](Case& c) { c.problem.mask = Mask{.visible = {.kind = kind}, .broadcast = {}}; });
    all.push_back([=](Case& c) { c.problem.bias.emplace().finite.kind = kind; });
  }
  for (const int64_t length : {int64_t{0}, int64_t{1}, tiles.tile_k}) {
    all.push_back([=](Case& c) { c.problem.key_lengths.emplace(size_t{1}, length); });
  }
  for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
    all.push_back([=](Case& c) {
      c.problem.causal = true;
      c.problem.align = align;
    });
    all.push_back([=](Case& c) {
      c.problem.window_left = 0;
      c.problem.align = align;
    });
    all.push_back([=](Case& c) {
      c.problem.window_right = 0;
      c.problem.align = align;
    });
  }
  all.push_back([](Case& c) { c.problem.num_splits = 2; });
  all.push_back([](Case& c) { c.problem.heads_q = 2; });
  all.push_back([](Case& c) { c.problem.heads_q = c.problem.heads_kv = 2; });
  all.push_back([](Case& c) { c.problem.batch = 2; });
  return all;
}

}  // namespace

bool find_ground(Search& s, Ground& ground) {
  Case c;
  c.lane = ground.lane;
  c.env.variant = ground.variant;
  for (const int64_t dim : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    c.problem.dim_qk = c.problem.dim_v = dim;
    Verdict verdict;
    if (s.ask(c, &verdict) == Search::Answer::kRefused) continue;
    ground.least_dim = dim;
    if (verdict.plan.tile_q > 0) ground.tiles.tile_q = verdict.plan.tile_q;
    if (verdict.plan.tile_k > 0) ground.tiles.tile_k = verdict.plan.tile_k;
    return !s.out_of_time();
  }
  return false;
}

std::vector<Case> ladder(const Ground& ground, const std::vector<int64_t>& below, size_t limit) {
  std::vector<Rung> rungs;
  const auto add = [&](const Case& c, std::span<const Data> all) {
    for (const Data& data : all) {
      Case filled = with_data(c, data);
      tidy(filled);
      std::vector<int64_t> cost = complexity(filled);
      if (cost < below && !illegal(filled)) rungs.emplace_back(std::move(cost), std::move(filled));
    }
  };
  const std::vector<Form> features = forms(ground.tiles);
  const std::vector<Data> few = few_data(), all = all_data(), random = random_scores();
  const int64_t tile_k = ground.tiles.tile_k;
  for (const int64_t seq_q : {int64_t{1}, int64_t{2}, ground.tiles.tile_q + 1}) {
    for (const int64_t seq_k : {int64_t{1}, int64_t{2}, tile_k - 1, tile_k, tile_k + 1, 2 * tile_k + 1}) {
      Case c;
      c.lane = ground.lane;
      c.env.variant = ground.variant;
      c.problem.seq_q = seq_q;
      c.problem.seq_k = seq_k;
      c.problem.dim_qk = c.problem.dim_v = ground.least_dim;
      for (const Form& form : features) {
        Case with = c;
        form(with);
        add(with, few);
      }
      if (seq_q == 1 && seq_k == tile_k + 1) add(c, random);
      // Data shows itself with one query, and in a tile or beyond one: elsewhere it
      // would only cost evaluations.
      if (seq_q == 2 || seq_k == tile_k - 1 || seq_k == tile_k) continue;
      for (const int64_t dim : {ground.least_dim, int64_t{2}, int64_t{8}, int64_t{64}}) {
        if (dim < ground.least_dim) continue;
        c.problem.dim_qk = c.problem.dim_v = dim;
        add(c, all);
      }
    }
  }
  std::ranges::sort(rungs, {}, &Rung::first);
  // Equal costs are equal cases.
  const auto repeated = std::ranges::unique(rungs, {}, &Rung::first);
  rungs.erase(repeated.begin(), repeated.end());
  if (rungs.size() > limit) rungs.resize(limit);
  std::vector<Case> cases;
  for (Rung& rung : rungs) cases.push_back(std::move(rung.second));
  return cases;
}

}  // namespace attnfuzz
