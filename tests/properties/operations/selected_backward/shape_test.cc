// Tests gradients over listed blocks that are made from a drawn case: they are legal, unchanged if made again,
// unchanged in files, and get the O and LSE that a forward call over the lists stores. Their properties hold
// for a right kernel and find a wrong one.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/selection.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "reference/gradients/gradients.h"
#include "reference/rows/visibility.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz {
namespace {

using enum TensorId;

constexpr uint64_t kTakenBesideLists = ATTN_FEATURE_INDEX32 | ATTN_FEATURE_DLSE | ATTN_FEATURE_RAGGED,
                   kOfListGradients =
                       ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NO_FORWARD | kTakenBesideLists;

const Operation& of_lists() { return operation_of(ATTN_FEATURE_SELECTED_BACKWARD); }

TEST(SelectedBackwardShape, EveryDrawnCaseBecomesALegalOne) {
  ASSERT_STREQ(of_lists().name, "selected_backward");
  std::set<SelectionKind> kinds;
  std::set<FillKind> fills;
  int narrow = 0, dlse = 0, repeated = 0, causal = 0, several = 0, planted = 0, apart = 0,
      packed = 0;
  for (uint64_t index = 0; index < 3000; ++index) {
    Case c = draw({.features = kTakenBesideLists}, 5, index);
    of_lists().shape(c, kTakenBesideLists);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    of_lists().shape(again, kTakenBesideLists);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    const Problem& p = c.problem;
    ASSERT_EQ(p.features & kOperations, ATTN_FEATURE_SELECTED_BACKWARD);
    ASSERT_FALSE(p.bias || p.mask || p.sink || p.slopes || p.paging) << encode(c);
    packed += p.packed_q || p.packed_k;
    kinds.insert(p.selection.kind), fills.insert(c.dout.kind);
    narrow += p.index_dtype == ATTN_INDEX_32, dlse += (p.features & ATTN_FEATURE_DLSE) != 0;
    repeated += c.dout_repeated != Repeated{}, causal += p.causal, several += p.heads_q > p.heads_kv;
    for (const Planted& x : c.planted) planted += x.tensor == kDout;
    apart += c.layout[static_cast<size_t>(kSavedO)] != TensorLayout{};
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kSelectionKinds));
  EXPECT_GE(fills.size(), 7u);
  EXPECT_GT(narrow, 1000);
  EXPECT_GT(dlse, 600);
  EXPECT_GT(repeated, 100);
  EXPECT_GT(apart, 500) << "the saved O takes the layout of the drawn O";
  EXPECT_GT(causal, 1500);
  EXPECT_GT(several, 300);
  EXPECT_GT(planted, 5);
  EXPECT_GT(packed, 400);
}

TEST(SelectedBackwardShape, AProblemOfTwoOperationsIsIllegal) {
  Case c;
  c.problem.features = ATTN_FEATURE_SELECTED_BACKWARD;
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  for (const uint64_t other : {ATTN_FEATURE_SELECTED, ATTN_FEATURE_BACKWARD, ATTN_FEATURE_NSA_SELECT}) {
    Case two = c;
    two.problem.features |= other;
    EXPECT_NE(illegal(two), std::nullopt) << other;
  }
}

// A kernel with the operations selected and backward gets no gradients over lists, and a kernel with only these
// gradients gets no others.
TEST(SelectedBackwardShape, AKernelGetsOnlyItsOperations) {
  constexpr uint64_t kBoth = ATTN_FEATURE_SELECTED | ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NO_FORWARD;
  EXPECT_FALSE(kernel_has(of_lists(), kBoth));
  for (uint64_t dice = 0; dice < 8; ++dice) {
    EXPECT_NE(operation_for(0, kBoth, dice), &of_lists());
    EXPECT_EQ(operation_for(0, kOfListGradients, dice), &of_lists());
  }
}

// The saved O and LSE are those of attention over the lists.
TEST(SelectedBackwardShape, GetsTheResultsOfAForwardCallOverTheLists) {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_SELECTED_BACKWARD;
  p.seq_q = 2, p.seq_k = 4, p.dim_qk = p.dim_v = 1;
  p.selection = {.block = 2, .select = 1};  // keys 0 and 1
  c.q = {.kind = FillKind::kZero};
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  Arena arena;
  LaidOut laid(c, arena);
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = 16;
  plan.num_splits = 1;
  of_lists().prepare(laid.problem(), laid.tensors(), plan,
                     [&](TensorId id, std::vector<std::byte> bytes) { laid.derive(id, std::move(bytes)); });
  EXPECT_NEAR(*static_cast<const float*>(laid.tensors().lse.data), std::log(2.0), 1e-6)
      << "the LSE of two keys";
}

Verdict judged_gradients(const char* property, const Case& c, Target& target) {
  return judge(c, *find_property(property), target, documented());
}

constexpr const char* kOfListedGradients[] = {
    "reference", "selected_bwd_as_mask", "selected_order", "selected_future", "bwd_zero",
    "bwd_row",   "bwd_future",           "bwd_pow2",       "bwd_linear",      "bwd_constant_value"};

TEST(SelectedBackwardRelations, ARightKernelPasses) {
  OracleTarget right(nullptr, kOfListGradients);
  for (const char* name : kOfListedGradients) {
    ASSERT_TRUE(speaks_of(*find_property(name), right.info())) << name;
    int passed = 0;
    for (uint64_t index = 0; index < 40; ++index) {
      const Verdict v =
          judged_gradients(name, draw({.features = kTakenBesideLists, .work = 50'000}, 3, index), right);
      ASSERT_NE(v.outcome, Outcome::kFail) << name << ", case " << index << ": " << v.message;
      passed += v.outcome == Outcome::kPass;
    }
    EXPECT_GT(passed, 20) << name;
  }
}

// A property of two operations judges a case by the case's operation, and a kernel that has only one of them by
// that one.
TEST(SelectedBackwardRelations, APropertyOfTwoOperationsTakesTheCasesOperation) {
  const Property& zero = *find_property("bwd_zero");
  std::string why;
  for (const uint64_t own : {ATTN_FEATURE_BACKWARD, ATTN_FEATURE_SELECTED_BACKWARD}) {
    OracleTarget both(nullptr, ATTN_FEATURE_BACKWARD | kOfListGradients),
        one(nullptr, own | ATTN_FEATURE_NO_FORWARD);
    Case c;
    c.problem.features = own;
    tidy(c);
    EXPECT_TRUE(adapted(c, zero, both, &why)) << why;
    EXPECT_EQ(c.problem.features & kOperations, own);
    std::set<uint64_t> chosen;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Case drawn, of_one;
      drawn.q.seed = of_one.q.seed = seed;
      ASSERT_TRUE(adapted(drawn, zero, both, &why)) << why;
      chosen.insert(drawn.problem.features & kOperations);
      ASSERT_TRUE(adapted(of_one, zero, one, &why)) << why;
      EXPECT_EQ(of_one.problem.features & kOperations, own);
    }
    EXPECT_EQ(chosen.size(), 2u);
  }
}

}  // namespace
}  // namespace attnfuzz
