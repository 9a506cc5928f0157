// What outputs, guards and the workspace hold before a call.
#include "properties/case/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.prefill); };

}  // namespace

extern constinit const Feature prefill = {
    .switches = {19, {whole_switch<kFields>("the prefill")}},
    .dials = none,
    .others = {{"prefill", is_usual<kFields>, {[](Case& c) { c.prefill = Prefill::kHuge; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kFields>(c));
          cost.at(Rank::kPrefill).add(static_cast<int>(c.prefill));
        },
    .forms = none,
    .draw = {Phase::kMemory,
             [](const Toss& toss, Case& c) {
               c.prefill = toss.dice.percent(75) ? Prefill::kNan : Prefill::kHuge;
             }},
    .parts = {{"prefill", 1, take<kFields>}},
    .numbers = none,
    .steps = none,
    .refusals = none,
    .marks = none,
    .words = {{Told::kSurroundings, 4,
               [](const Case& c, Sentence& words) {
                 if (c.prefill == Prefill::kHuge) words.push_back("outputs prefilled with 2^100");
               }}},
    .tidy = none,
    .illegal = none,
};

}  // namespace attnfuzz::feature
