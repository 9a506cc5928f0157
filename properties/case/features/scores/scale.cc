// The factor of all scores.
#include <algorithm>
#include <cmath>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kScaleFields = [](auto& c) { return std::tie(c.problem.scale); };

float usual(const Problem& p) {  // IEEE arithmetic: the same on every machine
  return 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(p.dim_qk, 1)));
}

float draw_scale(Rng& rng, const Problem& p) {
  enum { kUsual, kOne, kPower, kZero, kNegative, kAny };
  switch (rng.weighted<int>({{70, kUsual}, {6, kOne}, {9, kPower}, {4, kZero}, {6, kNegative}, {5, kAny}})) {
    case kOne:
      return 1.0f;
    case kPower:
      return std::ldexp(1.0f, static_cast<int>(rng.range(-8, 1)));
    case kZero:
      return 0.0f;
    case kNegative:
      return -usual(p);
    case kAny: {  // up to 64, of either sign
      const float size =
          std::ldexp(static_cast<float>(rng.range(128, 255)), static_cast<int>(rng.range(-5, 5)) - 7);
      return rng.percent(75) ? size : -size;
    }
    default:
      return usual(p);
  }
}

}  // namespace

extern constinit const Feature scale = checked({
    .without = {kShrinkIntegers, kNumbers, kMutations, kRefusals, kTidy},
    .shrink_toggles = {14,
                       {{"the scale", is_set<kScaleFields>, unset<kScaleFields>,
                         [](Case& to, const Case& from, int choice) {
                           to.problem.scale = choice == 0 ? usual(to.problem) : from.problem.scale;
                           return choice < 2;
                         }}}},
    .alternatives = {{"scale",
                      is_usual<kScaleFields>,
                      {[](Case& c) { c.problem.scale = 0.5f; }, [](Case& c) { c.problem.scale = 2; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const float x = c.problem.scale;
          cost.count(x != 1);
          cost.at(Rank::kScale).add(x == 1.0f ? 0.0f : x);
          cost.at(Rank::kScaleBits).add(x);
        },
    .canonical_seeds = [](int64_t, auto& seeds) { seeds.push_back([](Case& c) { c.problem.scale = -1; }); },
    .draw = {Phase::kValues,
             [](const DrawContext& context, Case& c) { c.problem.scale = draw_scale(context.rng, c.problem); }},
    .crossover_groups = {{"scale", 3, take<kScaleFields>}},
    .tags = {{"scale <= 0", [](const Tiled& x) { return x.p.scale <= 0; }}},
    .words = {{Section::kNumber, 2,
               [](const Case& c, Sentence& words) {
                 if (c.problem.scale != 1) words.push_back("scale " + number(c.problem.scale));
               }}},
    .illegal = [](const Case& c) -> Complaint {
      if (std::isfinite(c.problem.scale)) return std::nullopt;
      return "scale is not finite";
    },
});

}  // namespace attnfuzz::feature
