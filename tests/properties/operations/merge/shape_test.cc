// Tests a merge that is made from a drawn case: it is legal, unchanged if made again, unchanged in files, and
// laid out as the plan declares.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "properties/case/codec.h"
#include "properties/case/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

const Operation& merge() { return operation_of(ATTN_FEATURE_MERGE); }

TEST(MergeShape, EveryDrawnCaseBecomesALegalMerge) {
  ASSERT_STREQ(merge().name, "merge");
  std::set<PatternKind> kinds;
  int dead = 0, planted = 0;
  for (uint64_t index = 0; index < 2000; ++index) {
    Case c = draw({}, 5, index);
    merge().shape(c, 0);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    merge().shape(again, 0);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    kinds.insert(c.sides.kind);
    dead += c.sides != Pattern{};
    planted += !c.planted.empty();
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kPatternKinds));
  EXPECT_GT(dead, 500);
  EXPECT_GT(planted, 20);
}

TEST(MergeShape, FieldsThatItLacksAreRefused) {
  Case c;
  merge().shape(c, 0);
  ASSERT_EQ(illegal(c), std::nullopt);
  Case causal = c;
  causal.problem.causal = true;
  EXPECT_NE(illegal(causal), std::nullopt);
  Case keys = c;
  keys.problem.seq_k = 3;
  EXPECT_NE(illegal(keys), std::nullopt);
  Case values = c;
  values.q.kind = FillKind::kGaussian;
  EXPECT_NE(illegal(values), std::nullopt);
  Case forward;
  forward.o1.kind = FillKind::kGaussian;
  EXPECT_NE(illegal(forward), std::nullopt);
  Case sides;
  sides.sides.kind = PatternKind::kNothing;
  EXPECT_NE(illegal(sides), std::nullopt);
}

// Side 1 saw no key, so its O is 0, and its LSE is the plan's LSE of dead rows.
TEST(MergeShape, ASideWithoutKeysFollowsThePlan) {
  Case c;
  merge().shape(c, 0);
  c.sides.kind = PatternKind::kLastKey;
  c.o2 = c.lse2 = Fill{};  // ones
  Arena arena;
  LaidOut laid(c, arena);
  const attn_tensors& t = laid.tensors();
  const auto lse1 = [&] { return *static_cast<const float*>(t.lse1.data); };
  EXPECT_EQ(*static_cast<const uint16_t*>(t.o1.data), 0);
  EXPECT_EQ(*static_cast<const uint16_t*>(t.o2.data), 0x3c00);
  EXPECT_EQ(lse1(), -INFINITY);
  EXPECT_EQ(t.q.data, nullptr) << "a merge has no Q";
  attn_plan plan = {};
  plan.lse_dead = ATTN_LSE_DEAD_PLUS_INF;
  laid.follow(plan);
  EXPECT_EQ(lse1(), INFINITY);
  EXPECT_EQ(*static_cast<const float*>(t.lse2.data), 1);
  EXPECT_FALSE(laid.check_planned().has_value());
}

TEST(MergeShape, AKernelGetsOnlyItsOperations) {
  constexpr uint64_t kOnlyMerge = ATTN_FEATURE_MERGE | ATTN_FEATURE_NO_FORWARD;
  EXPECT_EQ(operation_for(0, 0), &operations::forward);
  EXPECT_EQ(operation_for(0, ATTN_FEATURE_MERGE), &operations::forward);
  EXPECT_EQ(operation_for(ATTN_FEATURE_MERGE, ATTN_FEATURE_MERGE), &merge());
  EXPECT_EQ(operation_for(0, kOnlyMerge), &merge());
  EXPECT_EQ(operation_for(0, ATTN_FEATURE_NO_FORWARD), nullptr);
}

}  // namespace
}  // namespace attnfuzz
