// The content of outputs, redzones and the workspace before a call.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kPoisonFields = [](auto& c) { return std::tie(c.poison); };

}  // namespace

extern constinit const Feature poison = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kRefusals, kTags, kTidy, kIllegal},
    .shrink_toggles = {19, {whole_toggle<kPoisonFields>("the poison")}},
    .alternatives = {{"prefill", is_usual<kPoisonFields>, {[](Case& c) { c.poison = Poison::kHuge; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kPoisonFields>(c));
          cost.at(Rank::kPoison).add(static_cast<int>(c.poison));
        },
    .draw = {Phase::kMemory,
             [](const DrawContext& context, Case& c) {
               c.poison = context.rng.percent(75) ? Poison::kNan : Poison::kHuge;
             }},
    .crossover_groups = {{"prefill", 1, take<kPoisonFields>}},
    .words = {{Section::kSurroundings, 4,
               [](const Case& c, Sentence& words) {
                 if (c.poison == Poison::kHuge) words.push_back("outputs poisoned with 2^100");
               }}},
});

}  // namespace attnfuzz::feature
