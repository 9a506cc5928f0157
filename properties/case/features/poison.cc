// The content of outputs, redzones and the workspace before a call.
#include "properties/case/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.poison); };

}  // namespace

extern constinit const Feature poison = {
    .switches = {19, {whole_switch<kFields>("the poison")}},
    .dials = none,
    .others = {{"prefill", is_usual<kFields>, {[](Case& c) { c.poison = Poison::kHuge; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kFields>(c));
          cost.at(Rank::kPoison).add(static_cast<int>(c.poison));
        },
    .forms = none,
    .draw = {Phase::kMemory,
             [](const DrawContext& context, Case& c) {
               c.poison = context.rng.percent(75) ? Poison::kNan : Poison::kHuge;
             }},
    .parts = {{"prefill", 1, take<kFields>}},
    .numbers = none,
    .steps = none,
    .refusals = none,
    .marks = none,
    .words = {{Told::kSurroundings, 4,
               [](const Case& c, Sentence& words) {
                 if (c.poison == Poison::kHuge) words.push_back("outputs poisoned with 2^100");
               }}},
    .tidy = none,
    .illegal = none,
};

}  // namespace attnfuzz::feature
