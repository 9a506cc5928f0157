// The oracle's values and bounds against their definition in long double.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/reference/literal.h"

namespace attnfuzz {
namespace {

// Never below the definition, and above it by the series for e^x - 1 alone.
void expect_bound(double bound, long double literal, const char* what) {
  const double ratio = bound / static_cast<double>(literal);
  EXPECT_GE(ratio, 1 - 1e-8) << what;
  EXPECT_LE(ratio, 1 + 1e-5) << what;
}

void expect_agrees(Case& c, const char* what) {
  const Reference reference = c.reference();
  const attn_problem& p = c.problem;
  for (int64_t row = 0; row < reference.rows; ++row) {
    const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    const LiteralRow literal = literal_row(c, b, h, i);
    const RowState state = reference.state[static_cast<size_t>(row)];
    ASSERT_EQ(state == RowState::kDead, literal.dead) << what << " row " << row;
    if (state != RowState::kBounded) continue;
    const auto at = static_cast<size_t>(row);
    // A score of 1e3 carries an error of 1e-13 in double, and e^x passes it on.
    const double slack = 1e-14 * (1 + std::abs(reference[TensorId::kLse].value[at]));
    EXPECT_NEAR(reference[TensorId::kLse].value[at], static_cast<double>(literal.lse),
                slack * (1 + std::abs(reference[TensorId::kLse].value[at])))
        << what;
    expect_bound(reference[TensorId::kLse].bound[at], literal.lse_bound, what);
    for (size_t col = 0; col < static_cast<size_t>(p.dim_v); ++col) {
      const size_t element = at * static_cast<size_t>(p.dim_v) + col;
      EXPECT_NEAR(reference[TensorId::kO].value[element], static_cast<double>(literal.o[col]),
                  slack * static_cast<double>(literal.o_size[col]) + 1e-300)
          << what << " row " << row;
      expect_bound(reference[TensorId::kO].bound[element], literal.o_bound[col], what);
    }
  }
}

TEST(Bound, IsItsDefinition) {
  Random random(5);
  for (const Regime regime : kRegimes)
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16})
      for (int k = 0; k < 8; ++k) {
        Shape shape;
        shape.dtype = dtype;
        shape.heads_q = 2;
        shape.seq_q = 1 + random.below(6);
        shape.seq_k = 1 + random.below(70);
        shape.dim_qk = 1 + random.below(40);
        shape.dim_v = 1 + random.below(20);
        shape.causal = k % 2;
        shape.align = ATTN_BOTTOM_RIGHT;
        shape.num_splits = k % 4 < 2 ? 1 : 3;
        if (k % 3 == 1) shape.bias_dtype = ATTN_F32;
        if (k % 3 == 2) shape.softcap = 10;
        Case c(shape);
        c.fill(regime, random.bits());
        if (k > 4) c.plan.scale_mode = ATTN_SCALE_SEPARATE;
        if (k == 7) c.plan.p_format = ATTN_FORMAT_F32;
        expect_agrees(c, name_of(regime));
      }
}

TEST(Bound, ConstantValuesHaveNoScoreError) {
  Case c({.seq_q = 3, .seq_k = 50});
  c.fill(Regime::kPeaked, 3);
  const Reference varied = c.reference();
  c.fill(Regime::kPeaked, 3);
  for (int64_t j = 0; j < 50; ++j)
    for (int64_t col = 0; col < 16; ++col) c.set_v(0, 0, j, col, 2);
  const Reference constant = c.reference();
  // What is left are the roundings of P, of the sums and of O: a few u_P.
  for (const double bound : constant[TensorId::kO].bound) EXPECT_LE(bound, 2 * 3 * 0x1p-11);
  EXPECT_EQ(constant[TensorId::kLse].value, varied[TensorId::kLse].value);
}

TEST(Bound, UnfusedFoldedAndSixteenBitPartialsCostMore) {
  Case c({.seq_q = 2, .seq_k = 60, .num_splits = 2});
  c.fill(Regime::kGaussian, 9);
  double last = c.reference()[TensorId::kO].bound[0];
  const auto expect_grown = [&](const char* what) {
    const double bound = c.reference()[TensorId::kO].bound[0];
    EXPECT_GT(bound, last) << what;
    last = bound;
  };
  c.plan.scale_mode = ATTN_SCALE_SEPARATE;
  expect_grown("separate scale");
  c.plan.partial_format = ATTN_FORMAT_OF_INPUT;
  expect_grown("16-bit partials");
  c.plan.scale_mode = ATTN_SCALE_FOLDED_Q;
  expect_grown("scale folded into Q");
  c.plan.exp_class = ATTN_EXP_FAST_EXPF;
  expect_grown("__expf");
}

}  // namespace
}  // namespace attnfuzz
