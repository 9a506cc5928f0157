// The device's arithmetic that the CPU executor imitates, bit for bit, in approximate instructions and
// products. It is part of the case, because the case is judged by the calibration of that arithmetic.
#include "properties/case/features/feature.h"
#include "reference/model/device_arithmetic.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kArithmeticFields = [](auto& c) { return std::tie(c.env.arithmetic); };

}  // namespace

extern constinit const Feature arithmetic = checked({
    .without = {kShrinkToggles, kShrinkIntegers, kAlternatives, kCost, kCanonicalSeeds, kDraw, kCrossoverGroups,
                kNumbers, kMutations, kRefusals, kTags, kTidy},
    .words = {{Section::kSurroundings, 4,
               [](const Case& c, Sentence& words) {
                 if (is_set<kArithmeticFields>(c))
                   words.push_back(cat("arithmetic ", arithmetic_words(c.env.arithmetic)));
               }}},
    .illegal = [](const Case& c) -> Complaint {
      return outside("env.arithmetic", c.env.arithmetic, 0, std::ssize(kArithmeticNames) - 1);
    },
});

}  // namespace attnfuzz::feature
