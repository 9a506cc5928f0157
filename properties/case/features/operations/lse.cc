// want_lse: the caller wants the LSE, or in nsa_score the scores of blocks.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kLseFields = [](auto& c) { return std::tie(c.want_lse); };

}  // namespace

extern constinit const Feature lse = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kRefusals, kTags, kTidy, kIllegal},
    .shrink_toggles = {20, {whole_toggle<kLseFields>("no LSE")}},
    .alternatives =
        {{"LSE", is_usual<kLseFields>, {[](Case& c) { c.want_lse = false; }}, "the LSE to be wanted"}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(!c.want_lse);
          cost.at(Rank::kLse).add(!c.want_lse);
        },
    .draw = {Phase::kMemory, [](const DrawContext& context, Case& c) { c.want_lse = !context.rng.percent(8); }},
    .crossover_groups = {{"want_lse", 1, take<kLseFields>}},
    .words = {{Section::kSurroundings, 5,
               [](const Case& c, Sentence& words) {
                 if (!c.want_lse)
                   words.push_back(c.problem.scores_blocks() ? "scores not wanted" : "LSE not wanted");
               }}},
});

}  // namespace attnfuzz::feature
