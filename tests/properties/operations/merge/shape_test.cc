// Tests a merge that is made from a drawn case: it is legal, unchanged if made again, unchanged in files, and
// laid out as the plan declares.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/words.h"
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

TEST(MergeShape, OnlyAKernelThatMergesInPlaceIsAskedTo) {
  int in_place = 0, planted = 0;
  for (uint64_t index = 0; index < 2000; ++index) {
    Case c = draw({}, 7, index), other = c;
    merge().shape(c, ATTN_FEATURE_IN_PLACE);
    merge().shape(other, 0);
    EXPECT_EQ(other.problem.features & ATTN_FEATURE_IN_PLACE, 0u);
    if ((c.problem.features & ATTN_FEATURE_IN_PLACE) == 0) continue;
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    merge().shape(again, ATTN_FEATURE_IN_PLACE);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    EXPECT_NE(describe(c).find("in place"), std::string::npos) << describe(c);
    ++in_place, planted += std::ranges::count(c.planted, TensorId::kO1, &Planted::tensor) > 0;
  }
  EXPECT_NEAR(in_place, 250, 75);
  EXPECT_GT(planted, 2);
  Case forward;
  forward.problem.features = ATTN_FEATURE_IN_PLACE;
  EXPECT_NE(illegal(forward), std::nullopt);
}

// A merge in place with gaps: O and LSE of the first side lie where the result goes.
Case in_place_case() {
  Case c;
  merge().shape(c, 0);
  c.problem.features |= ATTN_FEATURE_IN_PLACE;
  c.problem.seq_q = 3, c.problem.dim_v = 2;
  c.o1 = c.o2 = c.lse1 = c.lse2 = {.kind = FillKind::kGaussian, .seed = 5};
  c.sides.kind = PatternKind::kFirstKey;
  c.planted = {{.tensor = TensorId::kO1, .s = 1, .d = 1, .bits = 0x7e00}};
  c.layout[static_cast<size_t>(TensorId::kO)].row_gap = 3;
  tidy(c);
  return c;
}

TEST(MergeShape, TheFirstSideLiesWhereTheResultGoes) {
  const Case c = in_place_case();
  Case apart = c;
  apart.problem.features &= ~ATTN_FEATURE_IN_PLACE;
  Arena arena, other;
  LaidOut laid(c, arena), laid_apart(apart, other);
  const attn_tensors &t = laid.tensors(), &given = laid.given(), &there = laid_apart.tensors();
  ASSERT_EQ(t.o1.data, t.o.data);
  ASSERT_EQ(t.lse1.data, t.lse.data);
  EXPECT_EQ(t.o1.stride[2], 5);
  EXPECT_EQ(laid.digests(), laid_apart.digests()) << "the values are the same";
  auto* const o = static_cast<uint16_t*>(t.o.data);
  for (int call = 0; call < 2; ++call) {
    laid.before_call({});
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t d = 0; d < 2; ++d) {
        const auto due = static_cast<const uint16_t*>(there.o1.data)[i * there.o1.stride[2] + d];
        EXPECT_EQ(o[i * 5 + d], due);
        EXPECT_EQ(static_cast<const uint16_t*>(given.o1.data)[i * given.o1.stride[2] + d], due);
        o[i * 5 + d] = 0x3c00;
      }
    }
    EXPECT_EQ(o[5 + 1], 0x3c00);
    EXPECT_FALSE(laid.check_memory().has_value());
    EXPECT_EQ(laid.read(TensorId::kO), std::vector<float>(6, 1.0f));
  }
  o[2] ^= 1;
  EXPECT_EQ(laid.check_memory()->kind, MemoryFault::Kind::kGap);
}

TEST(MergeShape, PlanMayNotWriteOverTheFirstSide) {
  Arena arena;
  LaidOut laid(in_place_case(), arena);
  EXPECT_FALSE(laid.check_planned().has_value());
  static_cast<uint16_t*>(laid.tensors().o.data)[0] ^= 1;
  EXPECT_EQ(laid.check_planned()->kind, MemoryFault::Kind::kTooEarly);
}

TEST(MergeShape, WithoutALseTheFirstSidesKeepsItsMemory) {
  Case c = in_place_case();
  c.want_lse = false;
  Arena arena;
  LaidOut laid(c, arena);
  EXPECT_EQ(laid.tensors().lse.data, nullptr);
  ASSERT_NE(laid.tensors().lse1.data, nullptr);
  laid.before_call({});
  static_cast<uint16_t*>(laid.tensors().o.data)[0] ^= 1;
  EXPECT_FALSE(laid.check_memory().has_value());
  static_cast<float*>(laid.tensors().lse1.data)[1] += 1;
  const auto fault = laid.check_memory();
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, MemoryFault::Kind::kInputChanged);
}

// In place, a side without keys also has the plan's LSE, and given values replace the case's.
TEST(MergeShape, TheFirstSideFollowsThePlanInPlace) {
  Case c = in_place_case();
  c.sides.kind = PatternKind::kLastKey;
  Arena arena;
  LaidOut laid(c, arena);
  const auto lse = [&](const attn_tensors& t) { return *static_cast<const float*>(t.lse1.data); };
  EXPECT_EQ(lse(laid.tensors()), -INFINITY);
  attn_plan plan = {};
  plan.lse_dead = ATTN_LSE_DEAD_PLUS_INF;
  laid.follow(plan);
  EXPECT_EQ(lse(laid.tensors()), INFINITY);
  EXPECT_EQ(lse(laid.given()), INFINITY);
  laid.derive(TensorId::kLse1, std::vector<std::byte>(12));
  laid.before_call({});
  EXPECT_EQ(lse(laid.tensors()), 0);
  EXPECT_EQ(lse(laid.given()), 0);
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
