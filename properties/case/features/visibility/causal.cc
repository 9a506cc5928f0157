// Causality hides the keys after the diagonal. The alignment says where the diagonal lies, for windows as
// well.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kCausalFields = [](auto& c) { return std::tie(c.problem.causal, c.problem.align); };
constexpr auto kCausal = [](auto& c) { return std::tie(c.problem.causal); };

void turn(Case& c) { c.problem.align = 1 - c.problem.align; }

bool window_alone(const Problem& p, int32_t align) { return hides_by_diagonal(p) && !p.causal && p.align == align; }

}  // namespace

extern constinit const Feature causal = checked({
    .without = {kShrinkIntegers, kNumbers, kMutations},
    .shrink_toggles = {10,
                       {{"causal", is_set<kCausal>, unset<kCausal>, whole_toggle<kCausalFields>("").add,
                         Trait::kHidesKeys}}},
    .alternatives = {{"causal",
                      is_usual<kCausal>,
                      {[](Case& c) { c.problem.causal = true; },
                       [](Case& c) { kCausalFields(c) = std::make_tuple(true, ATTN_BOTTOM_RIGHT); }}},
                     {"alignment", [](const Case& c) { return c.problem.causal; }, {turn}},
                     {"alignment",
                      [](const Case& c) { return window_alone(c.problem, ATTN_TOP_LEFT); },
                      {turn},
                      "top-left alignment"},
                     {"alignment",
                      [](const Case& c) { return window_alone(c.problem, ATTN_BOTTOM_RIGHT); },
                      {turn},
                      "bottom-right alignment"}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(int{c.problem.causal} + int{c.problem.align != ATTN_TOP_LEFT});
          cost.at(Rank::kCausal).add(c.problem.causal);
          cost.add(c.problem.align);
        },
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
            seeds.push_back([=](Case& c) { kCausalFields(c) = std::make_tuple(true, align); });
          }
        },
    .draw = {Phase::kVisibility,
             [](const DrawContext& context, Case& c) {
               c.problem.causal = context.rng.percent(40);
               c.problem.align = context.rng.coin() ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
             }},
    .crossover_groups = {{"causal", 5, take<kCausalFields>}},
    .refusals = {{"causal",
                  [](Problem& p) { p.causal = true; },
                  [](Case& c) { unset<kCausal>(c); },
                  {"causal_prefix"},
                  "dead rows",
                  Limit::kNoCausal}},
    .tags = {{"causal", [](const Tiled& x) { return x.p.causal; }, TagUse::kBoth},
             {"causal bottom-right",
              [](const Tiled& x) { return x.p.causal && x.p.align == ATTN_BOTTOM_RIGHT; }},
             {"bottom-right",
              [](const Tiled& x) { return hides_by_diagonal(x.p) && x.p.align == ATTN_BOTTOM_RIGHT; },
              TagUse::kPairs}},
    .words = {{Section::kMask, 0,
               [](const Case& c, Sentence& words) {
                 if (c.problem.causal) words.push_back(cat("causal (", align_name(c.problem.align), ")"));
               }}},
    .tidy =
        [](Case& c) {
          if (!hides_by_diagonal(c.problem) && !c.problem.slopes) c.problem.align = ATTN_TOP_LEFT;
        },
    .illegal = [](const Case& c) -> Complaint {
      const int32_t align = c.problem.align;
      if (align == ATTN_TOP_LEFT || align == ATTN_BOTTOM_RIGHT) return std::nullopt;
      return say("align", align, "top-left (0) or bottom-right (1)");
    },
});

}  // namespace attnfuzz::feature
