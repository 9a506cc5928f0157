// The order in which the CPU executor runs blocks and threads. 0 means one after the other.
#include "properties/case/features/feature.h"
#include "properties/case/words.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kScheduleFields = [](auto& c) { return std::tie(c.env.schedule_seed); };

}  // namespace

extern constinit const Feature schedule = checked({
    .without = {kShrinkIntegers, kNumbers, kMutations, kRefusals, kTidy, kIllegal},
    .shrink_toggles = {17, {value_toggle<kScheduleFields, uint64_t{1}>("the schedule")}},
    .alternatives = {{"schedule",
                      is_usual<kScheduleFields>,
                      {[](Case& c) { c.env.schedule_seed = 1; }, [](Case& c) { c.env.schedule_seed = 2; },
                       [](Case& c) { c.env.schedule_seed = 3; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kScheduleFields>(c));
          cost.at(Rank::kSchedule).bits(c.env.schedule_seed);
        },
    .canonical_seeds = [](int64_t, auto& seeds) { seeds.push_back([](Case& c) { c.env.schedule_seed = 1; }); },
    .draw = {Phase::kMemory,
             [](const DrawContext& context, Case& c) {
               c.env.schedule_seed = context.rng.percent(25) ? 0 : context.rng.bits() % 65536;
             }},
    .crossover_groups = {{"schedule", 2, take<kScheduleFields>}},
    .tags = {{"random schedule", [](const Tiled& x) { return x.c.env.schedule_seed != 0; }}},
    .words = {{Section::kSurroundings, 3,
               [](const Case& c, Sentence& words) {
                 if (c.env.schedule_seed != 0) words.push_back(cat("schedule ", c.env.schedule_seed));
               }}},
});

}  // namespace attnfuzz::feature
