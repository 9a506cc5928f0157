// A number of keys for each batch entry. Keys beyond it are hidden.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kKeyLengthsFields = [](auto& c) { return std::tie(c.problem.key_lengths); };
// NaN beyond the lengths needs the lengths.
constexpr auto kWithNan = [](auto& c) { return std::tie(c.problem.key_lengths, c.nan_beyond_lengths); };

// Lengths that are clamped to seq_k, unless 16 or 32 bits truncate them first.
constexpr int64_t kBeyondIntegers[] = {int64_t{1} << 15, int64_t{1} << 16, int64_t{1} << 31, int64_t{1} << 32};

void draw_key_lengths(const DrawContext& context, Case& c) {
  Rng& rng = context.rng;
  if (!rng.percent(22)) return;
  const Problem& p = c.problem;
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t border = context.tile_k * rng.range(1, 3) + rng.range(-1, 1);
    lengths.push_back(rng.weighted<int64_t>({{40, rng.range(0, p.seq_k)},
                                             {20, border < p.seq_k ? border : p.seq_k},
                                             {15, p.seq_k},
                                             {16, 0},
                                             {5, 1},
                                             {5, p.seq_k + rng.range(1, 100)},
                                             {4, rng.pick<int64_t>(kBeyondIntegers)},
                                             {3, -rng.range(1, 9)}}));
  }
  c.problem.key_lengths = std::move(lengths);
}

int64_t shortest(const Case& c) {
  const auto& lengths = *c.problem.key_lengths;
  return lengths.empty() ? 0 : *std::ranges::min_element(lengths);
}

}  // namespace

extern constinit const Feature key_lengths = checked({
    .without = {kAlternatives, kMutations},
    .shrink_toggles = {11,
                       {{"key lengths", is_set<kKeyLengthsFields>, unset<kKeyLengthsFields>,
                         [](Case& to, const Case& from, int choice) {
                           const int64_t lengths[] = {0, 1, std::max<int64_t>(to.problem.seq_k - 1, 0),
                                                      shortest(from)};
                           if (choice > 3) return false;
                           to.problem.key_lengths.emplace(static_cast<size_t>(to.problem.batch),
                                                          lengths[choice]);
                           return true;
                         },
                         Trait::kHidesKeys, "the longest key length"}}},
    .shrink_integers = {{"the longest key length", IntegerKind::kKeyLength, 0,
                         [](const Case& c) { return *std::ranges::max_element(*c.problem.key_lengths); },
                         [](Case& c, int64_t n) {
                           for (int64_t& length : *c.problem.key_lengths) length = std::min(length, n);
                         },
                         [](const Case& c) {
                           return c.problem.key_lengths && !c.problem.key_lengths->empty();
                         }}},
    .cost =
        [](const Case& c, Cost& cost) {
          const auto& lengths = c.problem.key_lengths;
          cost.count(lengths.has_value());
          cost.at(Rank::kKeyLengths).add(lengths ? static_cast<int64_t>(lengths->size()) : 0);
          for (const int64_t length : lengths.value_or(std::vector<int64_t>())) cost.distance(length, 0);
        },
    .canonical_seeds =
        [](int64_t tile_k, auto& seeds) {
          for (const int64_t length : {int64_t{0}, int64_t{1}, tile_k}) {
            seeds.push_back([=](Case& c) { c.problem.key_lengths.emplace(size_t{1}, length); });
          }
        },
    .draw = {Phase::kVisibility, draw_key_lengths},
    .crossover_groups = {{"key lengths", 4, take<kWithNan>}},
    .numbers =
        [](const DrawContext& context, const Case& c, auto& numbers) {
          const auto& lengths = c.problem.key_lengths;
          if (!lengths || lengths->empty()) return;
          const auto b = static_cast<size_t>(context.rng.range(0, static_cast<int64_t>(lengths->size()) - 1));
          for (int i = 0; i < 2; ++i) {
            numbers.push_back({(*lengths)[b], -1, context.tile_k, c.problem.seq_k,
                               [=](Case& x, int64_t n) { (*x.problem.key_lengths)[b] = n; }});
          }
        },
    .refusals = {{"key lengths",
                  [](Problem& p) { p.key_lengths = {1}; },
                  [](Case& c) {
                    // A call with pages must have key lengths, so they become seq_k.
                    if (c.problem.paging && c.problem.key_lengths)
                      std::ranges::fill(*c.problem.key_lengths, c.problem.seq_k);
                    else
                      unset<kKeyLengthsFields>(c);
                  },
                  {"lengths_clamped"},
                  "dead rows",
                  Limit::kNoKeyLengths}},
    .tags = {{"key lengths", [](const Tiled& x) { return x.p.key_lengths.has_value(); }, TagUse::kBoth}},
    .words = {{Section::kMask, 2,
               [](const Case& c, Sentence& words) {
                 if (!c.problem.key_lengths) return;
                 const std::vector<int64_t>& all = *c.problem.key_lengths;
                 std::string lengths;
                 const size_t shown = std::min<size_t>(all.size(), 8);
                 for (size_t i = 0; i < shown; ++i) lengths += cat(i ? "," : "", all[i]);
                 if (shown < all.size()) lengths += ",...";
                 words.push_back("key lengths " + lengths);
               }}},
    .tidy =
        [](Case& c) {
          Problem& p = c.problem;
          if (p.key_lengths) p.key_lengths->resize(static_cast<size_t>(std::max<int64_t>(p.batch, 0)), p.seq_k);
        },
    .illegal = [](const Case& c) -> Complaint {
      const Problem& p = c.problem;
      if (!p.key_lengths || static_cast<int64_t>(p.key_lengths->size()) == p.batch) return std::nullopt;
      return cat("key_lengths has ", p.key_lengths->size(), " entries, batch is ", p.batch);
    },
});

}  // namespace attnfuzz::feature
