// Heads of queries, and of the keys and values that groups of them share.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kHeadsFields = [](auto& c) { return std::tie(c.problem.heads_q, c.problem.heads_kv); };

int64_t group(const Problem& p) { return p.heads_q / std::max<int64_t>(p.heads_kv, 1); }

void numbers(const DrawContext&, const Case& c, std::vector<MovableNumber>& numbers) {
  const auto set = [](Case& x, int64_t group, int64_t heads_kv) {
    x.problem.heads_kv = std::min(heads_kv, kLargestNumber);
    x.problem.heads_q = std::min(group, kLargestNumber) * x.problem.heads_kv;
  };
  numbers.push_back({group(c.problem), 1, 1, 3, [=](Case& x, int64_t n) { set(x, n, x.problem.heads_kv); }});
  numbers.push_back({c.problem.heads_kv, 1, 1, 3, [=](Case& x, int64_t n) { set(x, group(x.problem), n); }});
}

}  // namespace

extern constinit const Feature heads = checked({
    .without = {kAlternatives, kMutations, kWords, kTidy},
    .shrink_toggles = {4,
                       {{"more KV heads", [](const Case& c) { return c.problem.heads_kv > 1; },
                         [](Case& c) {
                           c.problem.heads_q = group(c.problem);
                           c.problem.heads_kv = 1;
                         },
                         [](Case& to, const Case& from, int choice) {
                           const int64_t heads = choice == 0 ? 2 : from.problem.heads_kv;
                           to.problem.heads_q *= heads;
                           to.problem.heads_kv *= heads;
                           return choice < 2;
                         },
                         Trait::kCounted},
                        {"grouped heads", [](const Case& c) { return c.problem.heads_q != c.problem.heads_kv; },
                         [](Case& c) { c.problem.heads_q = c.problem.heads_kv; },
                         [](Case& to, const Case& from, int choice) {
                           to.problem.heads_q *= choice == 0 ? 2 : group(from.problem);
                           return choice < 2;
                         },
                         Trait::kCounted}}},
    .shrink_integers = {{"heads_kv", IntegerKind::kGrid, 1, [](const Case& c) { return c.problem.heads_kv; },
                         [](Case& c, int64_t n) {
                           c.problem.heads_q = group(c.problem) * n;
                           c.problem.heads_kv = n;
                         }},
                        {"heads_q / heads_kv", IntegerKind::kGrid, 1,
                         [](const Case& c) { return group(c.problem); },
                         [](Case& c, int64_t n) { c.problem.heads_q = c.problem.heads_kv * n; }}},
    .cost =
        [](const Case& c, Cost& cost) {
          const Problem& p = c.problem;
          cost.at(Rank::kHeads).add(p.heads_q);
          cost.add(p.heads_kv > 0 ? p.heads_q / p.heads_kv : INT64_MAX);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          seeds.push_back([](Case& c) { c.problem.heads_q = 2; });
          seeds.push_back([](Case& c) { c.problem.heads_q = c.problem.heads_kv = 2; });
        },
    .draw = {Phase::kSizes,
             [](const DrawContext& context, Case& c) {
               Rng& rng = context.rng;
               c.problem.heads_kv = rng.weighted<int64_t>({{67, 1}, {21, 2}, {8, 3}, {4, rng.range(4, 8)}});
               c.problem.heads_q =
                   c.problem.heads_kv *
                   rng.weighted<int64_t>({{64, 1}, {10, 2}, {8, 3}, {5, 7}, {5, 8}, {8, rng.range(4, 16)}});
             }},
    .crossover_groups = {{"heads", 5, take<kHeadsFields>}},
    .numbers = numbers,
    .refusals = {{"grouped heads",
                  [](Problem& p) { p.heads_q = std::max<int64_t>(p.heads_q, 2), p.heads_kv = 1; },
                  [](Case& c) { c.problem.heads_kv = c.problem.heads_q; },
                  {"gqa"},
                  "gqa",
                  Limit::kNoGqa}},
    .tags = {{"gqa", [](const Tiled& x) { return x.p.heads_q != x.p.heads_kv; }, TagUse::kBoth}},
    .illegal = [](const Case& c) -> Complaint {
      const Problem& p = c.problem;
      if (p.heads_kv < 1) return say("heads_kv", p.heads_kv, "at least 1");
      if (p.heads_q < 1) return say("heads_q", p.heads_q, "at least 1");
      if (auto why = outside("heads_q", p.heads_q, 1, kMaxSize)) return why;
      if (p.heads_q % p.heads_kv == 0) return std::nullopt;
      return say("heads_q", p.heads_q, cat("a multiple of heads_kv, which is ", p.heads_kv));
    },
});

}  // namespace attnfuzz::feature
