#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/contract/call_fields.h"
#include "kernels/contract/domain_fields.h"
#include "kernels/contract/plan_fields.h"
#include "kernels/contract/problem_fields.h"

namespace attnfuzz::contract {
namespace {

// A static_assert beside each table checks that each field has a row. This tests that assertion.
TEST(Fields, AMissingRowIsFound) {
  struct Row {
    Field at;
  };
  constexpr Row whole[] = {{ATTN_FIELD(attn_tensor, data)}, {ATTN_FIELD(attn_tensor, stride)}};
  constexpr Row first[] = {{ATTN_FIELD(attn_tensor, data)}}, turned[] = {whole[1], whole[0]};
  static_assert(covers(whole, sizeof(attn_tensor)));
  static_assert(!covers(first, sizeof(attn_tensor)));
  static_assert(!covers(turned, sizeof(attn_tensor)));
}

TEST(Fields, NumbersAreSetAndReadByTheirType) {
  attn_problem p = {};
  set(find(kProblemFields, "seq_k")->at, &p, int64_t{1} << 40);
  set(find(kProblemFields, "scale")->at, &p, 0.5f);
  set(find(kProblemFields, "causal")->at, &p, true);
  set(find(kProblemFields, "window_left")->at, &p, -1);
  EXPECT_EQ(p.seq_k, int64_t{1} << 40);
  EXPECT_EQ(p.scale, 0.5f);
  EXPECT_EQ(p.causal, 1);
  EXPECT_EQ(p.window_left, -1);
  int called = 0;
  visit(find(kProblemFields, "seq_k")->at, &p, [&](auto value) {
    EXPECT_EQ(static_cast<int64_t>(value), p.seq_k);
    ++called;
  });
  EXPECT_EQ(called, 1);
  EXPECT_EQ(find(kProblemFields, "no_such_field"), nullptr);
}

TEST(Fields, TheBitsOfAProblemFollowFromItsFields) {
  attn_problem p = {};
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    p.dtype = dtype;
    EXPECT_EQ(features_of(p), 0u);
  }
  p.dtype = ATTN_F32;
  EXPECT_EQ(features_of(p), ATTN_FEATURE_F32);
}

// An appended field is 0 in a problem of an older caller, so a feature bit must announce it to a kernel.
TEST(Fields, AppendedFieldsHaveABitAndZeroAsksForNothing) {
  for (const ProblemField& row : kProblemFields) {
    if (row.at.offset <= offsetof(attn_problem, features) || row.meaning == Meaning::kReserved) continue;
    EXPECT_NE(row.feature | row.operations, 0u) << row.at.name;
    EXPECT_EQ(row.none, 0) << row.at.name;
  }
}

TEST(Fields, NamesOfPlanOptionsAreUnique) {
  std::set<std::string> names;
  for (const PlanField& row : kPlanFields) {
    if (row.option) EXPECT_TRUE(names.insert(row.option).second) << row.option;
    const bool told = row.names.empty() ? row.high > 0 && row.at.is_number() : true;
    if (told) EXPECT_NE(row.hint, nullptr) << row.at.name;
  }
}

}  // namespace
}  // namespace attnfuzz::contract
