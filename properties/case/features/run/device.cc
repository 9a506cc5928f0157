// The device that a plan is made for.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kSms = [](auto& c) { return std::tie(c.env.sm_count); };
constexpr auto kCapability = [](auto& c) { return std::tie(c.env.compute_capability); };
constexpr auto kShared = [](auto& c) { return std::tie(c.env.shared_memory_limit); };
constexpr auto kDeviceFields = [](auto& c) {
  return std::tie(c.env.sm_count, c.env.compute_capability, c.env.shared_memory_limit);
};

}  // namespace

extern constinit const Feature device = checked({
    .without = {kShrinkIntegers, kNumbers, kMutations, kRefusals, kTags, kTidy},
    .shrink_toggles = {18,
                       {value_toggle<kSms, 1>("sm_count"), whole_toggle<kCapability>("compute capability"),
                        whole_toggle<kShared>("shared memory limit")}},
    .alternatives = {{"sm_count",
                      is_usual<kSms>,
                      {[](Case& c) { c.env.sm_count = 1; }, [](Case& c) { c.env.sm_count = 16; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const Environment usual;
          cost.count(int{is_set<kSms>(c)} + int{is_set<kCapability>(c)} + int{is_set<kShared>(c)});
          // One multiprocessor is tried first, because a persistent kernel then loops sooner.
          cost.at(Rank::kDevice).add(is_set<kSms>(c) ? c.env.sm_count : 0);
          cost.distance(c.env.compute_capability, usual.compute_capability);
          cost.distance(c.env.shared_memory_limit, usual.shared_memory_limit);
        },
    // One multiprocessor gets several pieces of work if there are several heads.
    .canonical_seeds =
        [](int64_t, auto& seeds) {
          seeds.push_back([](Case& c) { c.env.sm_count = c.problem.heads_q = c.problem.heads_kv = 1; });
        },
    .draw = {Phase::kMemory,
             [](const DrawContext& context, Case& c) {
               using Device = std::tuple<int32_t, int32_t, int64_t>;
               const Device h200 = {132, 90, 232448};
               const bool usual = context.config.on_gpu && context.rng.percent(70);
               kDeviceFields(c) = usual ? h200
                                        : context.rng.pick<Device>(
                                              {h200, {108, 80, 166912}, {16, 86, 101376}, {1, 80, 166912}});
               // Fractions of a device, and other devices.
               if (context.rng.percent(30))
                 c.env.sm_count =
                     static_cast<int32_t>(context.rng.range(1, int64_t{1} << context.rng.range(1, 8)));
             }},
    .crossover_groups = {{"device", 2, take<kDeviceFields>}},
    .words = {{Section::kSurroundings, 2,
               [](const Case& c, Sentence& words) {
                 const Environment& env = c.env;
                 if (is_set<kSms>(c)) words.push_back(cat(env.sm_count, " SMs"));
                 if (is_set<kCapability>(c)) words.push_back(cat("sm_", env.compute_capability));
                 if (is_set<kShared>(c))
                   words.push_back(cat(env.shared_memory_limit, " bytes of shared memory"));
               }}},
    .illegal = [](const Case& c) -> Complaint {
      if (c.env.sm_count < 1) return say("env.sm_count", c.env.sm_count, "at least 1");
      if (c.env.compute_capability < 0)
        return say("env.compute_capability", c.env.compute_capability, "80, 90, ...");
      if (c.env.shared_memory_limit < 0) return "env.shared_memory_limit is negative";
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
