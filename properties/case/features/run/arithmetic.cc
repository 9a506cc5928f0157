// The device's arithmetic that the CPU executor imitates, bit for bit, in approximate instructions and
// products. It is part of the case, because the case is judged by the calibration of that arithmetic.
#include "properties/case/features/feature.h"
#include "reference/model/device_arithmetic.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kArithmeticFields = [](auto& c) { return std::tie(c.env.arithmetic); };

}  // namespace

extern constinit const Feature arithmetic = {
    .shrink_toggles = none,
    .shrink_integers = none,
    .alternatives = none,
    .cost = none,
    .canonical_seeds = none,
    .draw = none,
    .crossover_groups = none,
    .numbers = none,
    .mutations = none,
    .refusals = none,
    .tags = none,
    .words = {{Section::kSurroundings, 4,
               [](const Case& c, Sentence& words) {
                 if (is_set<kArithmeticFields>(c))
                   words.push_back(cat("arithmetic ", arithmetic_words(c.env.arithmetic)));
               }}},
    .tidy = none,
    .illegal = [](const Case& c) -> Complaint {
      return outside("env.arithmetic", c.env.arithmetic, 0, std::ssize(kArithmeticNames) - 1);
    },
};

}  // namespace attnfuzz::feature
