// Batch entries.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kBatchFields = [](auto& c) { return std::tie(c.problem.batch); };

}  // namespace

extern constinit const Feature batch = checked({
    .without = {kAlternatives, kMutations, kRefusals, kWords, kTidy},
    .shrink_toggles = {3,
                       {{"batch", [](const Case& c) { return c.problem.batch > 1; }, unset<kBatchFields>,
                         value_toggle<kBatchFields, int64_t{2}>("").add, Trait::kCounted}}},
    .shrink_integers = {shrink_integer<kBatchFields>("batch", IntegerKind::kGrid, 1)},
    // An empty batch is not simpler than a batch of one.
    .cost = [](const Case& c, Cost& cost) { cost.at(Rank::kBatch).distance(c.problem.batch, 1); },
    .canonical_seeds = [](int64_t, auto& seeds) { seeds.push_back([](Case& c) { c.problem.batch = 2; }); },
    .draw = {Phase::kSizes,
             [](const DrawContext& context, Case& c) {
               c.problem.batch = context.rng.weighted<int64_t>(
                   {{70, 1}, {20, 2}, {7, 3}, {2, context.rng.range(4, 9)}, {1, 0}});
             }},
    .crossover_groups = {{"batch", 3, take<kBatchFields>}},
    .numbers =
        [](const DrawContext&, const Case& c, auto& numbers) {
          numbers.push_back({c.problem.batch, 0, 1, 1, [](Case& x, int64_t n) { x.problem.batch = n; }});
        },
    .tags = {{"grid > 65535", [](const Tiled& x) { return x.p.batch > 65535 || x.p.heads_q > 65535; }}},
    .illegal = [](const Case& c) { return outside("batch", c.problem.batch, 0, kMaxSize); },
});

}  // namespace attnfuzz::feature
