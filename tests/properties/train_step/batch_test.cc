// Tests how the tokens of a step are packed, and how activations become tensors.
#include "properties/train_step/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace attnfuzz::train {
namespace {

using testing::ElementsAre;

TEST(Batch, PacksAllTokensSomeSequencesEmpty) {
  for (int64_t length = 1; length <= 70; ++length) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Batch batch = {.length = length, .packed = true, .seed = seed};
      const std::vector<int64_t> first = lengths_of(batch, 1);
      EXPECT_EQ(std::accumulate(first.begin(), first.end(), int64_t{0}), length);
      EXPECT_GT(first.front(), 0);
      EXPECT_THAT(first, testing::Contains(0));
      EXPECT_GE(*std::ranges::min_element(first), 0);
    }
  }
}

TEST(Batch, TheSecondStepHasTheSequencesInAnotherOrder) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Batch batch = {.length = 1 + static_cast<int64_t>(seed), .packed = true, .seed = seed};
    const std::vector<int64_t> first = lengths_of(batch, 1), second = lengths_of(batch, 2);
    EXPECT_NE(first, second);
    EXPECT_THAT(second, testing::UnorderedElementsAreArray(first));
  }
}

TEST(Batch, SeedsVaryTheSequences) {
  std::set<std::vector<int64_t>> seen;
  int one_long = 0, equal = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<int64_t> lengths = lengths_of({.length = 512, .packed = true, .seed = seed}, 1);
    seen.insert(lengths);
    std::erase(lengths, 0);
    const auto [least, most] = std::ranges::minmax(lengths);
    one_long += most > 450 && least < 10;
    equal += most - least <= 1;
  }
  EXPECT_GT(seen.size(), 40u);
  EXPECT_GT(one_long, 10);
  EXPECT_GT(equal, 10);
}

TEST(Batch, IsDescribedByItsLengths) {
  EXPECT_EQ(describe(Batch{.length = 128}, 2), "S = 128");
  EXPECT_EQ(describe(Batch{.length = 128, .packed = true}), "S = 128, packed");
  EXPECT_THAT(describe(Batch{.length = 1, .packed = true}, 1), testing::StartsWith("S = 1, packed as 1, 0"));
  EXPECT_THAT(lengths_of({.length = 128}, 1), ElementsAre(128));
}

TEST(Batch, ReadsBackWhatItLaysOut) {
  const std::vector<int64_t> lengths = {3, 0, 2};
  std::vector<double> activations;
  for (int n = 0; n < 5 * 2 * 4; ++n) activations.push_back(n);
  const std::vector<float> elements = by_sequence(activations, lengths, 2);
  ASSERT_EQ(elements.size(), 3u * 2 * 3 * 4);
  EXPECT_EQ(elements[4], 8);                     // row 1 of sequence 0, head 0: token 1
  EXPECT_EQ(elements[(2 * 2 + 1) * 3 * 4], 28);  // row 0 of sequence 2, head 1: token 3
  EXPECT_EQ(by_token<float>(elements, lengths, 2), activations);
}

}  // namespace
}  // namespace attnfuzz::train
