// Softcap: a score s becomes cap * tanh(s / cap), before masks.
#include <algorithm>
#include <cmath>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSoftcapFields = [](auto& c) { return std::tie(c.problem.softcap); };

// From 1/2 to 200, each power of two equally likely. One in four is a value that models use.
float draw_cap(Rng& rng) {
  if (rng.percent(25)) return rng.pick({1.0f, 5.0f, 15.0f, 20.0f, 30.0f, 50.0f});
  const int exponent = static_cast<int>(rng.range(-1, 7));
  return std::min(std::ldexp(static_cast<float>(rng.range(128, 255)), exponent - 7), 200.0f);
}

}  // namespace

extern constinit const Feature softcap = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kTidy},
    .shrink_toggles = {12, {value_toggle<kSoftcapFields, 1.0f>("softcap")}},
    .alternatives = {{"softcap", is_usual<kSoftcapFields>, {[](Case& c) { c.problem.softcap = 2; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kSoftcapFields>(c));
          cost.at(Rank::kSoftcap).add(c.problem.softcap);
        },
    .draw = {Phase::kValues,
             [](const DrawContext& context, Case& c) {
               if (context.rng.percent(10)) c.problem.softcap = draw_cap(context.rng);
             }},
    .crossover_groups = {{"softcap", 3, take<kSoftcapFields>}},
    .refusals = {{"softcap",
                  [](Problem& p) { p.softcap = 1; },
                  [](Case& c) { unset<kSoftcapFields>(c); },
                  {"softcap"},
                  nullptr,
                  Limit::kNoSoftcap}},
    .tags = {{"softcap", [](const Tiled& x) { return x.p.softcap > 0; }, TagUse::kBoth}},
    .words = {{Section::kNumber, 1,
               [](const Case& c, Sentence& words) {
                 if (c.problem.softcap != 0) words.push_back("softcap " + number(c.problem.softcap));
               }}},
    .illegal = [](const Case& c) -> Complaint {
      if (std::isfinite(c.problem.softcap) && c.problem.softcap >= 0) return std::nullopt;
      return "softcap must be 0 (none), or positive and finite";
    },
});

}  // namespace attnfuzz::feature
