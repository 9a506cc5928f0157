// A boolean mask: true shows a key.
#include "properties/case/features/visibility/pattern.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kMaskFields = [](auto& c) { return std::tie(c.problem.mask); };

bool mutate_mask(const DrawContext& context, Case& c) {
  auto& mask = c.problem.mask;
  if (mask) mutate_pattern(context, c.problem, mask->visible, mask->broadcast);
  return mask.has_value();
}

}  // namespace

extern constinit const Feature mask = checked({
    .without = {kNumbers},
    .shrink_toggles = {8,
                       {{"mask", is_set<kMaskFields>, unset<kMaskFields>,
                         [](Case& to, const Case& from, int choice) {
                           to.problem.mask = from.problem.mask;
                           if (choice == 0) to.problem.mask->broadcast = {};
                           return form_of(to.problem.mask->visible, choice);
                         },
                         Trait::kHidesKeys}}},
    .shrink_integers = {{"the mask's parameter", IntegerKind::kParameter, 1,
                         [](const Case& c) { return c.problem.mask->visible.parameter; },
                         [](Case& c, int64_t n) { c.problem.mask->visible.parameter = n; },
                         is_set<kMaskFields>}},
    .alternatives = {{"mask", is_usual<kMaskFields>, {[](Case& c) { c.problem.mask.emplace(); }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const auto& mask = c.problem.mask;
          cost.count(mask.has_value());
          cost.at(Rank::kMask).add(mask.has_value());
          if (!mask) return;
          cost.at(Rank::kMaskForm).add(mask->visible);
          cost.add(mask->broadcast);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const PatternKind kind :
               {PatternKind::kNothing, PatternKind::kFirstKey, PatternKind::kLastKey}) {
            seeds.push_back(
                [=](Case& c) { c.problem.mask = Mask{.visible = {.kind = kind}, .broadcast = {}}; });
          }
          seeds.push_back([](Case& c) { c.problem.mask.emplace().broadcast.query = true; });
        },
    .draw = {Phase::kVisibility,
             [](const DrawContext& context, Case& c) {
               if (!context.rng.percent(20)) return;
               c.problem.mask = Mask{draw_pattern(context, c.problem), draw_broadcast(context.rng)};
             }},
    .crossover_groups = {{"mask", 4, take<kMaskFields>}},
    .mutations = {mutate_mask},
    .refusals = {{"mask",
                  [](Problem& p) { p.mask.emplace(); },
                  [](Case& c) { unset<kMaskFields>(c); },
                  {"mask_as_bias"},
                  "dead rows",
                  Limit::kNoMask}},
    .tags = {{"mask", [](const Tiled& x) { return x.p.mask.has_value(); }, TagUse::kBoth}},
    .words = {{Section::kMask, 3,
               [](const Case& c, Sentence& words) {
                 if (const auto& mask = c.problem.mask)
                   words.push_back("mask: " + to_string(mask->visible) + broadcast_words(mask->broadcast));
               }}},
    .tidy =
        [](Case& c) {
          if (c.problem.mask) tidy(c.problem.mask->visible);
        },
    .illegal = [](const Case& c) -> Complaint {
      return c.problem.mask ? bad_pattern("mask.visible", c.problem.mask->visible) : std::nullopt;
    },
});

}  // namespace attnfuzz::feature
