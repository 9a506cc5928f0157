// The instantiation of the kernel that runs. 0 leaves it to the kernel.
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kVariantFields = [](auto& c) { return std::tie(c.env.variant); };

}  // namespace

extern constinit const Feature variant = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kRefusals, kTidy},
    .shrink_toggles = {1, {whole_toggle<kVariantFields>("the variant")}},
    .alternatives = {{"variant",
                      is_usual<kVariantFields>,
                      {[](Case& c) { c.env.variant = 2; }, [](Case& c) { c.env.variant = 3; },
                       [](Case& c) { c.env.variant = 4; }},
                      "variant 1"}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(is_set<kVariantFields>(c));
          cost.at(Rank::kVariant).add(is_set<kVariantFields>(c));
          cost.at(Rank::kVariantNumber).distance(c.env.variant, plain_case().env.variant);
        },
    .draw = {Phase::kSizes,
             [](const DrawContext& context, Case& c) {
               const int32_t variants = context.config.variants;
               const bool usual = variants > 0 && context.rng.percent(85);
               c.env.variant = usual          ? (context.config.on_gpu ? 0 : 1)
                               : variants > 0 ? static_cast<int32_t>(context.rng.range(0, variants))
                                              : 0;
             }},
    .crossover_groups = {{"variant", 2, take<kVariantFields>}},
    .tags = {{"other variant", [](const Tiled& x) { return x.c.env.variant > 1; }}},
    .words = {{Section::kSurroundings, 1,
               [](const Case& c, Sentence& words) {
                 if (is_set<kVariantFields>(c)) words.push_back(cat("variant ", c.env.variant));
               }}},
    .illegal = [](const Case& c) -> Complaint {
      if (c.env.variant >= 0) return std::nullopt;
      return say("env.variant", c.env.variant, "0 (the kernel's choice) or more");
    },
});

}  // namespace attnfuzz::feature
