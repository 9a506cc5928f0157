// Whether the LSE is wanted.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.want_lse); };

constexpr Switch kSwitches[] = {whole_switch<kFields>("no LSE")};
constexpr Part kParts[] = {{"want_lse", 1, take<kFields>}};
constexpr Words kWords[] = {{Told::kSurroundings, 5, [](const Case& c, std::vector<std::string>& words) {
                               if (!c.want_lse) words.push_back("no LSE wanted");
                             }}};

}  // namespace

extern constinit const Feature lse = {
    .switches = {20, kSwitches},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(!c.want_lse);
          cost.at(Rank::kLse).add(!c.want_lse);
        },
    .forms = none,
    .draw = {Phase::kMemory, [](const Toss& toss, Case& c) { c.want_lse = !toss.dice.percent(8); }},
    .parts = kParts,
    .numbers = none,
    .steps = none,
    .refusals = none,
    .marks = none,
    .words = kWords,
    .tidy = none,
    .illegal = none,
};

}  // namespace attnfuzz::feature
