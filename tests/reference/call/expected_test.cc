// Tests the expectation of an element, and the comparison of two oracles.
#include "reference/call/expected.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/agreement.h"
#include "reference/model/error_model.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

TEST(Ratio, IsTheErrorByTheBound) {
  const auto ratio = [](double centre, double allowed, float got, double overflow = 100,
                        bool logarithm = false) {
    return ratio_of(Due::kNumber, centre, allowed, overflow, logarithm, got);
  };
  EXPECT_EQ(ratio(2, 0.5, 2.25f), 0.5);
  EXPECT_EQ(ratio(2, 0.5, 1.0f), 2);
  EXPECT_EQ(ratio(2, 0.5, kNaN), kInfinity);
  EXPECT_EQ(ratio(2, kInfinity, kNaN), kInfinity) << "any number passes, NaN is none";
  EXPECT_EQ(ratio(2, kInfinity, 1e30f), 0);
  EXPECT_EQ(ratio(2, 0, 2.0f), 0);
  EXPECT_EQ(ratio(2, 0, 2.5f), kInfinity);
  // An infinity, where |value| + bound reaches the overflow on its side.
  EXPECT_EQ(ratio(90, 10, kInf), 0);
  EXPECT_EQ(ratio(90, 9.9, kInf), kInfinity);
  EXPECT_EQ(ratio(90, 10, -kInf), kInfinity);
  EXPECT_EQ(ratio(-90, 10, -kInf), 0);
  EXPECT_EQ(ratio(-90, 10, kInf), kInfinity);
  EXPECT_EQ(ratio(0, kInfinity, kInf), 0);
  EXPECT_EQ(ratio(90, 10, kInf, 0, true), kInfinity) << "of a natural logarithm none overflows";
  EXPECT_EQ(ratio(90, 10, kInf, 100, true), 0) << "in another base it may";
  EXPECT_EQ(ratio(90, 9.9, kInf, 100, true), kInfinity);
  EXPECT_EQ(ratio(99.7, kInfinity, kInf, 100, true), 0) << "nothing known of it: a 256th";
  EXPECT_EQ(ratio(99, kInfinity, kInf, 100, true), kInfinity);
  EXPECT_EQ(ratio(-kInfinity, 0, -kInf, 0, true), 0) << "but -inf is a value of it";
  EXPECT_EQ(ratio(-kInfinity, 0, kInf, 0, true), kInfinity);
  for (const float got : {1.0f, kInf, kNaN}) {
    EXPECT_EQ(ratio_of(Due::kAnything, 0, 0, 0, false, got), 0);
    EXPECT_EQ(ratio_of(Due::kMustBeNaN, 0, 0, 0, false, got), std::isnan(got) ? 0 : kInfinity);
  }
}

TEST(Expected, RowsAndOutputs) {
  Case c({.seq_q = 3, .seq_k = 4, .dim_v = 2});
  c.plan.key_order = ATTN_KEYS_ASCENDING, c.plan.max_rule = ATTN_MAX_RUNNING;
  c.fill(Regime::kGaussian, 1);
  Reference r = c.reference();
  Expected& o = r[TensorId::kO];
  ASSERT_EQ(o.exact.size(), 6u);
  const std::vector<double> before = o.value;
  o.exact = {1, 1, 1, 1, 1, 1};
  o.fill_row(1, Due::kAnything, 7, 8);
  EXPECT_EQ(o.value, (std::vector<double>{before[0], before[1], 7, 7, before[4], before[5]}));
  EXPECT_EQ(o.exact, (std::vector<double>{1, 1, 7, 7, 1, 1}));
  EXPECT_EQ(o.rule, (std::vector<uint8_t>{0, 0, 2, 2, 0, 0}));
  EXPECT_EQ(o.bound[2], 8);
  EXPECT_NE(o.bound[1], 8);
  EXPECT_NE(o.bound[4], 8);
  o.exact[4] = o.value[4] + 3;
  EXPECT_EQ(o.allowance(4), o.bound[4] + std::abs(o.value[4] - o.exact[4]));
  EXPECT_EQ(r[TensorId::kLse].allowance(2), r[TensorId::kLse].bound[2]);
  EXPECT_THROW(r[TensorId::kQ], std::out_of_range);
}

TEST(Agreement, ComparesStatesRulesValuesAndBounds) {
  Case c({.batch = 2, .heads_q = 2, .seq_q = 2, .seq_k = 4, .dim_v = 3});
  c.plan.key_order = ATTN_KEYS_ASCENDING, c.plan.max_rule = ATTN_MAX_RUNNING;
  c.fill(Regime::kGaussian, 1);
  const Reference right = c.reference();
  EXPECT_EQ(compare(c.problem, right, right).difference, "");
  EXPECT_EQ(compare(c.problem, right, right).value, 0);
  const auto after = [&](auto change) {
    Reference other = right;
    change(other);
    return compare(c.problem, other, right);
  };
  const auto o = [](Reference& r) -> Expected& { return r[TensorId::kO]; };
  // Element (1, 0, 1, 2): row 5 of 3 columns.
  constexpr size_t kAt = 5 * 3 + 2;
  const double bound = right[TensorId::kO].bound[kAt];
  const Agreement near = after([&](Reference& r) { o(r).value[kAt] += 0.99 * kApart * bound; });
  EXPECT_EQ(near.difference, "");
  EXPECT_NEAR(near.value, 0.99 * kApart, 1e-3 * kApart);
  EXPECT_EQ(near.bound, 0);
  const Agreement far = after([&](Reference& r) { o(r).value[kAt] += 1.01 * kApart * bound; });
  EXPECT_EQ(far.difference.rfind("o(b=1,h=0,q=1,d=2): ", 0), 0u) << far.difference;
  EXPECT_NE(far.difference.find(" and "), std::string::npos);
  EXPECT_NE(after([&](Reference& r) { o(r).exact[kAt] -= 1.01 * kApart * bound; }).difference, "");
  const Agreement wide = after([&](Reference& r) { o(r).bound[kAt] *= 1 + 0.99 * kApart; });
  EXPECT_EQ(wide.difference, "");
  EXPECT_NEAR(wide.bound, 0.99 * kApart, 1e-3 * kApart);
  EXPECT_NE(after([&](Reference& r) { o(r).bound[kAt] *= 1 + 1.01 * kApart; }).difference, "");
  EXPECT_NE(after([&](Reference& r) { o(r).value[kAt] = NAN; }).difference, "");
  EXPECT_NE(after([&](Reference& r) { o(r).bound[kAt] = kInfinity; }).difference, "");
  const auto said = [&](Due due) {
    return after([&](Reference& r) { o(r).rule[kAt] = static_cast<uint8_t>(due); }).difference;
  };
  EXPECT_EQ(said(Due::kMustBeNaN).rfind("o(b=1,h=0,q=1,d=2): NaN and ", 0), 0u);
  EXPECT_EQ(said(Due::kAnything).rfind("o(b=1,h=0,q=1,d=2): anything and ", 0), 0u);
  EXPECT_EQ(after([&](Reference& r) { r.state[6] = RowState::kNaN; }).difference,
            "row(b=1,h=1,q=0): NaN and bounded");
  EXPECT_EQ(after([&](Reference& r) { o(r).value.pop_back(); }).difference, "o has another size");
  EXPECT_EQ(after([&](Reference& r) { o(r).exact.clear(); }).difference, "o has another size");
  EXPECT_EQ(after([&](Reference& r) { r.outputs.pop_back(); }).difference, "not of one problem");
  EXPECT_EQ(after([&](Reference& r) { r.state.pop_back(); }).difference, "not of one problem");
  // Of several differences the first is reported; the second output is compared as well.
  const Agreement both = after([&](Reference& r) {
    r.state[1] = RowState::kDead, r.state[2] = RowState::kSkipped;
    o(r).value[0] += 1;
  });
  EXPECT_EQ(both.difference, "row(b=0,h=0,q=1): dead and bounded");
  EXPECT_GT(both.value, 1) << "the largest difference is returned as well";
  EXPECT_NE(after([&](Reference& r) { r[TensorId::kLse].value[7] += 1; }).difference.find("lse(b=1,h=1,q=1"),
            std::string::npos);
  const Agreement first = after([&](Reference& r) { o(r).value[kAt] += 1, o(r).rule[kAt + 1] = 2; });
  EXPECT_EQ(first.difference.rfind("o(b=1,h=0,q=1,d=2): ", 0), 0u) << "not the next, which has another rule";
  // If an element may be anything, or must be NaN, its expected value and bound are not compared.
  Reference a = right, b = right;
  o(a).rule[0] = o(b).rule[0] = 2, o(a).rule[1] = o(b).rule[1] = 1;
  o(a).value[0] += 1, o(a).bound[1] += 1;
  EXPECT_EQ(compare(c.problem, a, b).difference, "");
  EXPECT_EQ(compare(c.problem, a, b).value, 0);
}

}  // namespace
}  // namespace attnfuzz
