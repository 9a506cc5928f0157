// Tests that SplitMix64 gives the numbers of its published definition.
#include "base/random.h"

#include <gtest/gtest.h>

namespace attnfuzz {
namespace {

TEST(SplitMix64, GivesThePublishedNumbers) {
  // The first outputs of java.util.SplittableRandom's algorithm with seed 0 (prng.di.unimi.it/splitmix64.c).
  SplitMix64 random{0};
  EXPECT_EQ(random(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(random(), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(random(), 0x06c45d188009454fu);
  EXPECT_EQ(hash64(0), 0xe220a8397b1dcdafu);
  SplitMix64 rng{7};
  for (int n = 0; n < 100; ++n) {
    const int64_t side = rng.below(6);
    EXPECT_TRUE(side >= 0 && side < 6);
  }
}

}  // namespace
}  // namespace attnfuzz
