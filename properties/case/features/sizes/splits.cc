// The number of splits of the keys. 0 leaves it to the kernel.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSplitsFields = [](auto& c) { return std::tie(c.problem.num_splits); };

}  // namespace

extern constinit const Feature splits = checked({
    .without = {kMutations, kRefusals, kTidy},
    .shrink_toggles = {13,
                       {{"num_splits", is_set<kSplitsFields>, unset<kSplitsFields>,
                         [](Case& to, const Case& from, int choice) {
                           const int64_t n = from.problem.num_splits;
                           to.problem.num_splits = choice == 0 ? std::min<int64_t>(2, n) : n;
                           return choice < 2;
                         },
                         Trait::kOwn, "num_splits"}}},
    .shrink_integers = {shrink_integer<kSplitsFields>("num_splits", IntegerKind::kSplits, 1)},
    .alternatives = {{"num_splits",
                      [](const Case& c) { return c.problem.num_splits == 0; },
                      {[](Case& c) { c.problem.num_splits = 1; }, [](Case& c) { c.problem.num_splits = 2; },
                       [](Case& c) { c.problem.num_splits = 3; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kSplitsFields>(c));
          cost.at(Rank::kSplits).distance(c.problem.num_splits, 0);
        },
    .canonical_seeds = [](int64_t, auto& seeds) { seeds.push_back([](Case& c) { c.problem.num_splits = 2; }); },
    .draw = {Phase::kSizes,
             [](const DrawContext& context, Case& c) {
               Rng& rng = context.rng;
               if (!context.config.splits || rng.percent(30)) return;
               const int64_t tiles = c.problem.seq_k / context.tile_k + 1;
               c.problem.num_splits = rng.percent(80) ? rng.range(1, tiles + 1) : tiles + rng.range(1, 40);
             }},
    .crossover_groups = {{"splits", 5, take<kSplitsFields>}},
    .numbers =
        [](const DrawContext& context, const Case& c, auto& numbers) {
          const Problem& p = c.problem;
          if (!context.config.splits) return;
          const int64_t tiles = (p.seq_k + context.tile_k - 1) / context.tile_k;
          numbers.push_back({p.num_splits, 0, 1, tiles + context.rng.range(0, 1),
                             [](Case& x, int64_t n) { x.problem.num_splits = n; }});
        },
    .tags = {{"splits", [](const Tiled& x) { return x.splits > 1; }, TagUse::kBoth},
             {"splits > tiles",
              [](const Tiled& x) { return x.splits > (x.p.seq_k + x.tile_k - 1) / x.tile_k; }}},
    .words = {{Section::kNumber, 0,
               [](const Case& c, Sentence& words) {
                 const int64_t n = c.problem.num_splits;
                 if (n != 0) words.push_back(cat(n, n == 1 ? " split" : " splits"));
               }}},
    .illegal = [](const Case& c) -> Complaint {
      if (c.problem.num_splits >= 0) return std::nullopt;
      return say("num_splits", c.problem.num_splits, "0 (the kernel chooses) or more");
    },
});

}  // namespace attnfuzz::feature
