// In which order the CPU executor runs blocks and threads; 0: one after the other.
#include "properties/case/features/feature.h"
#include "properties/case/words.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kFields = [](auto& c) { return std::tie(c.env.schedule_seed); };

constexpr Switch kSwitches[] = {value_switch<kFields, uint64_t{1}>("the schedule")};
constexpr Part kParts[] = {{"schedule", 2, take<kFields>}};
constexpr Mark kMarks[] = {{"random schedule", [](const Placed& x) { return x.c.env.schedule_seed != 0; }}};
constexpr Words kWords[] = {{Told::kSurroundings, 3, [](const Case& c, std::vector<std::string>& words) {
                               if (c.env.schedule_seed != 0)
                                 words.push_back(cat("schedule ", c.env.schedule_seed));
                             }}};

}  // namespace

extern constinit const Feature schedule = {
    .switches = {17, kSwitches},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kFields>(c));
          cost.at(Rank::kSchedule).bits(c.env.schedule_seed);
        },
    .forms = none,
    .draw = {Phase::kMemory,
             [](const Toss& toss, Case& c) {
               c.env.schedule_seed = toss.dice.percent(25) ? 0 : toss.dice.bits() % 65536;
             }},
    .parts = kParts,
    .numbers = none,
    .steps = none,
    .refusals = none,
    .marks = kMarks,
    .words = kWords,
    .tidy = none,
    .illegal = none,
};

}  // namespace attnfuzz::feature
