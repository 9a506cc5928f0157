// Softcap: a score s becomes cap * tanh(s / cap), before masks.
#include <cmath>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.problem.softcap); };

}  // namespace

extern constinit const Feature softcap = {
    .switches = {12, {value_switch<kFields, 1.0f>("softcap")}},
    .dials = none,
    .others = {{"softcap", is_usual<kFields>, {[](Case& c) { c.problem.softcap = 2; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kFields>(c));
          cost.at(Rank::kSoftcap).add(c.problem.softcap);
        },
    .forms = none,
    .draw = {Phase::kValues,
             [](const Toss& toss, Case& c) {
               if (toss.dice.percent(10)) c.problem.softcap = toss.dice.pick({1.0f, 5.0f, 30.0f, 50.0f});
             }},
    .parts = {{"softcap", 3, take<kFields>}},
    .numbers = none,
    .steps = none,
    .refusals =
        {{"softcap", [](Problem& p) { p.softcap = 1; }, [](Case& c) { unset<kFields>(c); }, {"softcap"}}},
    .marks = {{"softcap", [](const Tiled& x) { return x.p.softcap > 0; }, MarkFor::kBoth}},
    .words = {{Told::kNumber, 1,
               [](const Case& c, Sentence& words) {
                 if (c.problem.softcap != 0) words.push_back("softcap " + number(c.problem.softcap));
               }}},
    .tidy = none,
    .illegal = [](const Case& c) -> Complaint {
      if (std::isfinite(c.problem.softcap) && c.problem.softcap >= 0) return std::nullopt;
      return "softcap must be 0 (none), or positive and finite";
    },
};

}  // namespace attnfuzz::feature
