// The columns of Q and K, and of V.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr int64_t kUsual = contract::kUsualDims, kMost = contract::kMostDims;
constexpr auto kBothDims = [](auto& c) { return std::tie(c.problem.dim_qk, c.problem.dim_v); };
constexpr auto kOfKeys = [](auto& c) { return std::tie(c.problem.dim_qk); };
constexpr auto kOfValues = [](auto& c) { return std::tie(c.problem.dim_v); };

// The most columns that a kernel with these features takes.
int64_t most_dims(uint64_t features) { return (features & ATTN_FEATURE_WIDE) != 0 ? kMost : kUsual; }

int64_t head_dim(Rng& rng) {
  enum { kCommon, kSmall, kOdd, kLarge, kAny };
  switch (rng.weighted<int>({{44, kCommon}, {22, kSmall}, {12, kOdd}, {8, kLarge}, {14, kAny}})) {
    case kCommon:
      return rng.pick<int64_t>({16, 32, 64, 64, 64, 128});
    case kSmall:
      return rng.range(1, 16);
    case kOdd:
      return rng.pick<int64_t>({17, 24, 33, 40, 63, 65, 72, 80, 96, 127});
    case kLarge:
      return rng.pick<int64_t>({129, 160, 192, 250, 255, 256});
    default:
      return rng.range(1, kUsual);
  }
}

// Draws a pair of head dimensions that models have. 192 and 128 are those of multi-head latent attention's
// prefill.
void draw_pair(Rng& rng, Problem& p) {
  const auto of =
      rng.pick<std::pair<int64_t, int64_t>>({{192, 128}, {192, 128}, {64, 128}, {128, 64}, {96, 64}});
  p.dim_qk = of.first, p.dim_v = of.second;
}

}  // namespace

extern constinit const Feature dims = checked({
    .without = {kAlternatives, kCanonicalSeeds, kMutations, kWords, kTidy},
    // Two head dimensions of 1 are the smallest, but a kernel may refuse them.
    .shrink_toggles = {21,
                       {{"head dims", [](const Case& c) { return c.problem.dim_qk > 1 || c.problem.dim_v > 1; },
                         unset<kBothDims>,
                         [](Case& to, const Case& from, int choice) {
                           const Problem& own = from.problem;
                           std::vector<std::pair<int64_t, int64_t>> dims;
                           for (const int64_t d : {2, 8, 16, 32, 64, 128, 256, 512}) {
                             if (d < std::max(own.dim_qk, own.dim_v))
                               dims.emplace_back(std::min(d, own.dim_qk), std::min(d, own.dim_v));
                           }
                           dims.emplace_back(own.dim_qk, own.dim_v);
                           if (choice >= static_cast<int>(dims.size())) return false;
                           kBothDims(to) = dims[static_cast<size_t>(choice)];
                           return true;
                         },
                         Trait::kSize}}},
    .shrink_integers = {shrink_integer<kOfKeys>("dim_qk", IntegerKind::kDim, 1),
                        shrink_integer<kOfValues>("dim_v", IntegerKind::kDim, 1)},
    .cost =
        [](const Case& c, Cost& cost) {
          const Problem& p = c.problem;
          cost.at(Rank::kDims).add(Cost::saturated_add(p.dim_qk, p.dim_v));
          cost.add(std::max(p.dim_qk, p.dim_v));
          cost.add(p.dim_qk);
        },
    .draw = {Phase::kSizes,
             [](const DrawContext& context, Case& c) {
               c.problem.dim_qk = head_dim(context.rng);
               c.problem.dim_v = context.rng.percent(75) ? c.problem.dim_qk : head_dim(context.rng);
               if (context.rng.percent(4)) draw_pair(context.rng, c.problem);
             }},
    .crossover_groups = {{"dims", 4, take<kBothDims>}, {"dim_v", 2, take<kOfValues>}},
    .numbers =
        [](const DrawContext& context, const Case& c, auto& numbers) {
          const Problem& p = c.problem;
          const int64_t most = most_dims(context.config.features);
          numbers.push_back(
              {p.dim_qk, 1, 8, p.dim_v, [=](Case& x, int64_t n) { x.problem.dim_qk = std::min(n, most); }});
          numbers.push_back(
              {p.dim_v, 1, 16, p.dim_qk, [=](Case& x, int64_t n) { x.problem.dim_v = std::min(n, most); }});
        },
    .refusals = {{"dim_v other than dim_qk",
                  [](Problem& p) { p.dim_v = 16; },
                  [](Case& c) { c.problem.dim_v = c.problem.dim_qk; },
                  {},
                  nullptr,
                  Limit::kEqualDims}},
    .tags =
        {
            {"dv != dk", [](const Tiled& x) { return x.p.dim_qk != x.p.dim_v; }, TagUse::kBoth},
            {"d % 8 != 0", [](const Tiled& x) { return x.p.dim_qk % 8 != 0 || x.p.dim_v % 8 != 0; }},
        },
    .illegal = [](const Case& c) -> Complaint {
      if (auto why = outside("dim_qk", c.problem.dim_qk, 1, kMost)) return why;
      return outside("dim_v", c.problem.dim_v, 1, kMost);
    },
});

}  // namespace attnfuzz::feature
