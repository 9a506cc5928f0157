// K and V hold NaN beyond each batch entry's length, where nothing may be read.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kNanBeyondLengthsFields = [](auto& c) { return std::tie(c.nan_beyond_lengths); };

}  // namespace

extern constinit const Feature nan_beyond_lengths = checked({
    // kCrossoverGroups: taken with the lengths
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kCrossoverGroups, kNumbers, kMutations,
                kRefusals, kIllegal},
    .shrink_toggles = {6,
                       {{"NaN beyond the key lengths", is_set<kNanBeyondLengthsFields>,
                         unset<kNanBeyondLengthsFields>,
                         [](Case& to, const Case&, int choice) {
                           if (!to.problem.key_lengths) {
                             to.problem.key_lengths.emplace(static_cast<size_t>(to.problem.batch),
                                                            std::max<int64_t>(to.problem.seq_k - 1, 0));
                           }
                           to.nan_beyond_lengths = true;
                           return choice == 0;
                         }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          cost.count(c.nan_beyond_lengths);
          cost.at(Rank::kNanBeyond).add(c.nan_beyond_lengths);
        },
    .draw = {Phase::kVisibility,
             [](const DrawContext& context, Case& c) {
               c.nan_beyond_lengths = c.problem.key_lengths && context.rng.percent(60);
             }},
    .tags = {{"NaN beyond lengths", [](const Tiled& x) { return x.c.nan_beyond_lengths; }}},
    .words = {{Section::kData, 2,
               [](const Case& c, Sentence& words) {
                 if (c.nan_beyond_lengths) words.push_back("NaN beyond the key lengths");
               }}},
    .tidy =
        [](Case& c) {
          if (!c.problem.key_lengths) c.nan_beyond_lengths = false;
        },
});

}  // namespace attnfuzz::feature
