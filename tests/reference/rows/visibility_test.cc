// Tests each mask, and that its two implementations agree.
#include "reference/rows/visibility.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

using Keys = std::vector<int64_t>;

Keys seen(Case& c, int64_t i, int64_t b = 0, int64_t h = 0) {
  Keys keys;
  row_keys(c.problem, c.tensors(), b, h, i, 0, c.problem.seq_k, &keys);
  return keys;
}

TEST(Visibility, CausalTopLeftAndBottomRightDiffer) {
  Case c({.seq_q = 2, .seq_k = 4, .causal = true});
  EXPECT_EQ(seen(c, 0), (Keys{0}));
  EXPECT_EQ(seen(c, 1), (Keys{0, 1}));
  c.problem.align = ATTN_BOTTOM_RIGHT;
  EXPECT_EQ(seen(c, 0), (Keys{0, 1, 2}));
  EXPECT_EQ(seen(c, 1), (Keys{0, 1, 2, 3}));
}

TEST(Visibility, MoreQueriesThanKeysLeavesDeadRowsAtTheTop) {
  Case c({.seq_q = 4, .seq_k = 2, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  EXPECT_EQ(seen(c, 0), Keys{});
  EXPECT_EQ(seen(c, 1), Keys{});
  EXPECT_EQ(seen(c, 2), (Keys{0}));
  EXPECT_EQ(seen(c, 3), (Keys{0, 1}));
}

TEST(Visibility, BottomRightCountsFromTheKeyLength) {
  Case c({.seq_q = 2, .seq_k = 6, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  c.use_key_lengths({3});
  EXPECT_EQ(seen(c, 0), (Keys{0, 1}));
  EXPECT_EQ(seen(c, 1), (Keys{0, 1, 2}));
}

TEST(Visibility, WindowIsInclusiveAtBothEnds) {
  Case c({.seq_q = 6, .seq_k = 6, .window_left = 2, .window_right = 1});
  EXPECT_EQ(seen(c, 3), (Keys{1, 2, 3, 4}));
  EXPECT_EQ(seen(c, 0), (Keys{0, 1}));
  c.problem.window_left = 0;
  c.problem.window_right = 0;
  EXPECT_EQ(seen(c, 3), (Keys{3}));
}

TEST(Visibility, NegativeWindowSideIsUnbounded) {
  Case c({.seq_q = 4, .seq_k = 4, .window_left = -1, .window_right = 0});
  EXPECT_EQ(seen(c, 2), (Keys{0, 1, 2}));
  c.problem.window_left = 0;
  c.problem.window_right = -5;
  EXPECT_EQ(seen(c, 2), (Keys{2, 3}));
}

TEST(Visibility, CausalCapsTheWindowsRightSide) {
  Case c({.seq_q = 4, .seq_k = 4, .causal = true, .window_left = 1, .window_right = 3});
  EXPECT_EQ(seen(c, 2), (Keys{1, 2}));
}

TEST(Visibility, HugeWindowsDoNotOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Case c({.seq_q = 3, .seq_k = 3, .align = ATTN_BOTTOM_RIGHT, .window_left = kMost, .window_right = kMost});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(seen(c, i), (Keys{0, 1, 2}));
}

TEST(Visibility, SumsOfPositionsSaturate) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(saturating_sum(2, 3), 5);
  EXPECT_EQ(saturating_sum(2, -3), -1);
  EXPECT_EQ(saturating_sum(kMost - 3, 3), kMost);
  EXPECT_EQ(saturating_sum(kMost - 3, 2), kMost - 1);
  EXPECT_EQ(saturating_sum(kMost - 3, 4), kMost);
  EXPECT_EQ(saturating_sum(kMost, 1), kMost);
  EXPECT_EQ(saturating_sum(kMost, kMost), kMost);
  EXPECT_EQ(saturating_sum(kLeast + 3, -3), kLeast);
  EXPECT_EQ(saturating_sum(kLeast + 3, -2), kLeast + 1);
  EXPECT_EQ(saturating_sum(kLeast + 3, -4), kLeast);
  EXPECT_EQ(saturating_sum(kLeast, 0), kLeast);
  EXPECT_EQ(saturating_sum(kMost, 0), kMost);
  EXPECT_EQ(saturating_sum(kMost, kLeast), -1);
}

TEST(Visibility, RangesAreNeverNegative) {
  Case c({.seq_q = 6, .seq_k = 3, .window_left = 1, .window_right = 1});
  for (int64_t i = 0; i < 6; ++i) {
    const KeyRange range = key_range(c.problem, 3, i);
    EXPECT_EQ(range.first, std::max<int64_t>(0, i - 1));
    EXPECT_EQ(range.last, std::max(range.first, std::min<int64_t>(3, i + 2)));
  }
}

TEST(Visibility, OffsetsAreOfAllStrides) {
  const attn_tensor tensor = {nullptr, {1000, 100, 10, 3}};
  EXPECT_EQ(offset_of(tensor, 1, 2, 3, 4), 1242);
  EXPECT_EQ(offset_of({nullptr, {0, 0, 0, 0}}, 1, 2, 3, 4), 0);
}

TEST(Visibility, KeyLengthsAreClamped) {
  Case c({.batch = 3, .seq_q = 1, .seq_k = 3});
  c.use_key_lengths({-7, 2, 99});
  EXPECT_EQ(seen(c, 0, 0), Keys{});
  EXPECT_EQ(seen(c, 0, 1), (Keys{0, 1}));
  EXPECT_EQ(seen(c, 0, 2), (Keys{0, 1, 2}));
}

TEST(Visibility, AMaskByteThatIsNotZeroMaySee) {
  Case c({.seq_q = 1, .seq_k = 4, .mask = true});
  c.mask = {0, 1, 0, 255};
  EXPECT_EQ(seen(c, 0), (Keys{1, 3}));
}

TEST(Visibility, OnlyABiasOfMinusInfinityHides) {
  Case c({.seq_q = 1, .seq_k = 5, .bias_dtype = ATTN_F32});
  c.bias = {0, -INFINITY, -3.4e38f, NAN, INFINITY};
  EXPECT_EQ(seen(c, 0), (Keys{0, 2, 3, 4}));
}

TEST(Visibility, BroadcastMaskAndBias) {
  Case c({.heads_q = 2, .seq_q = 3, .seq_k = 3, .mask = true});
  c.mask = {1, 0, 1};
  attn_tensors tensors = c.tensors();
  tensors.mask.stride[0] = tensors.mask.stride[1] = tensors.mask.stride[2] = 0;
  Keys keys;
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 3; ++i) {
      row_keys(c.problem, tensors, 0, h, i, 0, 3, &keys);
      EXPECT_EQ(keys, (Keys{0, 2}));
    }
}

TEST(Visibility, SeesAndRowKeysAgree) {
  Random random(3);
  for (int k = 0; k < 400; ++k) {
    Shape shape;
    shape.batch = 2;
    shape.seq_q = random.below(9);
    shape.seq_k = random.below(9);
    shape.causal = random.below(2);
    shape.align = static_cast<int32_t>(random.below(2));
    shape.window_left = random.below(6) - 2;
    shape.window_right = random.below(6) - 2;
    shape.mask = random.below(2);
    if (random.below(2)) shape.bias_dtype = ATTN_F32;
    Case c(shape);
    c.fill(Regime::kGaussian, random.bits());
    if (random.below(2)) c.use_key_lengths({random.below(12) - 1, random.below(12) - 1});
    const attn_tensors tensors = c.tensors();
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t i = 0; i < shape.seq_q; ++i) {
        Keys expected, keys;
        for (int64_t j = -1; j <= shape.seq_k; ++j)
          if (sees(c.problem, tensors, b, 0, i, j)) expected.push_back(j);
        row_keys(c.problem, tensors, b, 0, i, 0, shape.seq_k, &keys);
        ASSERT_EQ(keys, expected) << "case " << k;
        row_keys(c.problem, tensors, b, 0, i, 2, 5, &keys);
        std::erase_if(expected, [](int64_t j) { return j < 2 || j >= 5; });
        ASSERT_EQ(keys, expected) << "case " << k;
      }
  }
}

}  // namespace
}  // namespace attnfuzz
