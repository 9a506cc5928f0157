// Tests the oracle: heads, prefixes, dead rows, empty problems, strides.
#include "reference/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "reference/numbers/formats.h"
#include "reference/rows/products.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

// Only exact results are left out if the caller does not want them.
TEST(Oracle, GivesExactResultsOnRequest) {
  Case c({.seq_q = 5, .seq_k = 40, .dim_v = 20});
  c.fill(Regime::kGaussian, 1);
  declare_all(&c.plan);
  const Reference all = c.reference(), less = evaluate(c.problem, c.tensors(), c.plan, documented(), {}, false);
  const Expected &o = all[TensorId::kO], &of_less = less[TensorId::kO];
  EXPECT_FALSE(o.exact.empty());
  EXPECT_TRUE(of_less.exact.empty());
  EXPECT_EQ(o.value, of_less.value);
  EXPECT_EQ(o.bound, of_less.bound);
  EXPECT_EQ(all[TensorId::kLse].bound, less[TensorId::kLse].bound);
}

// A float cannot hold the size of a value that is far below the others, so doubles are used. The bound is the
// same.
TEST(Oracle, SizesOfValuesThatLieFarApart) {
  for (const bool known : {false, true}) {
    Case c({.dtype = ATTN_BF16, .seq_q = 3, .seq_k = 70, .dim_v = 20});
    c.fill(Regime::kGaussian, 1);
    if (known) declare_all(&c.plan);
    const Expected near = c.reference()[TensorId::kO];
    c.set_v(0, 0, 69, 19, 0x1p-100f);
    const Expected far = c.reference()[TensorId::kO];
    // All columns but that one have the same values.
    for (size_t row = 0; row < 3; ++row)
      for (size_t at = row * 20; at < row * 20 + 19; ++at) {
        EXPECT_EQ(far.value[at], near.value[at]);
        EXPECT_LT(far.bound[at], near.bound[at]);
        EXPECT_GT(far.bound[at], near.bound[at] * (1 - kSizesApart));
      }
  }
}

TEST(Oracle, ZeroQueryIsTheMeanOfTheVisibleValues) {
  Case c({.seq_q = 4, .seq_k = 4, .dim_v = 3, .causal = true});
  c.fill(Regime::kZeroQuery, 1);
  for (int64_t j = 0; j < 4; ++j)
    for (int64_t col = 0; col < 3; ++col) c.set_v(0, 0, j, col, static_cast<float>(j * (col + 1)));
  const Reference r = c.reference();
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(r[TensorId::kLse].value[static_cast<size_t>(i)], std::log(i + 1.0), 1e-15);
    for (int64_t col = 0; col < 3; ++col)
      EXPECT_NEAR(r[TensorId::kO].value[static_cast<size_t>(i * 3 + col)],
                  static_cast<double>(i * (col + 1)) / 2, 1e-15);
  }
}

TEST(Oracle, QueryHeadsShareTheirKvHeadInOrder) {
  Case c({.batch = 2, .heads_q = 6, .heads_kv = 2, .seq_q = 1, .seq_k = 3, .dim_v = 1});
  c.fill(Regime::kZeroQuery, 1);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t j = 0; j < 3; ++j) c.set_v(b, g, j, 0, static_cast<float>(10 * b + g + 1));
  const Reference r = c.reference();
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 6; ++h)
      EXPECT_NEAR(r[TensorId::kO].value[static_cast<size_t>(b * 6 + h)],
                  static_cast<double>(10 * b + h / 3 + 1), 1e-14);
}

TEST(Oracle, EachBatchHasItsOwnKeys) {
  Case c({.batch = 3, .heads_q = 2, .seq_q = 2, .seq_k = 3, .dim_v = 1});
  c.fill(Regime::kZeroQuery, 1);
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t j = 0; j < 3; ++j) c.set_v(b, 0, j, 0, static_cast<float>(b + 1));
  const Reference r = c.reference();
  for (size_t row = 0; row < 12; ++row)
    EXPECT_NEAR(r[TensorId::kO].value[row], static_cast<double>(row / 4 + 1), 1e-14);
}

// A query that sees only a few scattered keys is computed as a separate block.
TEST(Oracle, ARowOfFewKeysFarApart) {
  Case c({.seq_q = 1, .seq_k = 96, .dim_v = 1, .mask = true});
  c.fill(Regime::kZeroQuery, 1);
  c.mask.assign(96, 0);
  for (const size_t j : {3, 20, 40, 60, 95}) c.mask[j] = 1;
  for (int64_t j = 0; j < 96; ++j) c.set_v(0, 0, j, 0, static_cast<float>(j));
  EXPECT_NEAR(c.reference()[TensorId::kO].value[0], (3 + 20 + 40 + 60 + 95) / 5.0, 1e-13);
}

TEST(Oracle, NamesWhatThePlanLeavesOpen) {
  Case c({.seq_q = 1, .seq_k = 3});
  EXPECT_TRUE(c.reference().assumptions.empty());
  c.plan.exp_class = ATTN_EXP_UNKNOWN;
  ASSERT_EQ(c.reference().assumptions, (std::vector<Assumption>{{Assumption::Part::kExp, "__expf"}}));
  EXPECT_EQ(c.reference().assumptions[0].text(), "exp not known: __expf assumed");
  EXPECT_EQ(c.reference().assumptions[0].brief(), "exp: __expf");
}

TEST(Oracle, NoLogSumExpIsAnInfinity) {
  Case c({.seq_q = 1, .seq_k = 3});
  c.fill(Regime::kGaussian, 1);
  const Reference r = c.reference();
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, kInf), kInf);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, -kInf), kInf);
}

// A hidden value does not loosen the bound, however large it is; nor does it as a partial whose weight may be
// flushed.
TEST(Oracle, HugeHiddenValuesDoNotLoosenTheBound) {
  Case c({.dtype = ATTN_BF16, .seq_q = 2, .seq_k = 64, .dim_v = 1, .tile_k = 16, .num_splits = 2});
  c.problem.causal = 1;
  c.fill(Regime::kGaussian, 1);
  const double bound = c.reference()[TensorId::kO].bound[1];
  c.set_v(0, 0, 40, 0, 0x1p124f);
  c.plan.isolates_masked_nan = 1;
  EXPECT_NEAR(c.reference()[TensorId::kO].bound[1], bound, kSizesApart * bound) << "in fp32, where that can be";
}

TEST(Oracle, CausalRowIsTheFullResultOnItsPrefix) {
  Case causal({.seq_q = 20, .seq_k = 20, .causal = true});
  causal.fill(Regime::kGaussian, 4);
  const Reference r = causal.reference();
  for (int64_t t = 0; t < 20; ++t) {
    Case prefix = causal;
    prefix.problem.causal = 0;
    prefix.use_key_lengths({t + 1});
    const Reference full = prefix.reference();
    EXPECT_EQ(r[TensorId::kLse].value[static_cast<size_t>(t)],
              full[TensorId::kLse].value[static_cast<size_t>(t)]);
    for (size_t col = 0; col < 16; ++col) {
      const size_t at = static_cast<size_t>(t) * 16 + col;
      EXPECT_EQ(r[TensorId::kO].value[at], full[TensorId::kO].value[at]);
      EXPECT_EQ(r[TensorId::kO].bound[at], full[TensorId::kO].bound[at]);
    }
  }
}

TEST(Oracle, DeadRowsAreExact) {
  Case c({.seq_q = 3, .seq_k = 2, .dim_v = 2, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  c.fill(Regime::kGaussian, 4);
  const Reference r = c.reference();
  EXPECT_EQ(r.dead, 1);
  ASSERT_EQ(r.state[0], RowState::kDead);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, 0.0f), 0);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, -0.0f), 0);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 0, 0x1p-149f), kInf);
  EXPECT_EQ(r[TensorId::kO].ratio(0, 1, NAN), kInf);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, -kInf), 0);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, kInf), kInf);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, NAN), kInf);
  EXPECT_EQ(r[TensorId::kLse].ratio(0, 0, -1e30f), kInf);
}

TEST(Oracle, AnLseHasTheFormThatThePlanDeclares) {
  Case c({.seq_q = 3, .seq_k = 2, .dim_v = 2, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  c.fill(Regime::kGaussian, 4);
  const Reference natural = c.reference();
  c.plan.lse_base = 2;
  const Reference base2 = c.reference();
  const Expected &e = natural[TensorId::kLse], &two = base2[TensorId::kLse];
  for (size_t row = 1; row < 3; ++row) {
    EXPECT_DOUBLE_EQ(two.value[row], e.value[row] / std::log(2.0));
    EXPECT_DOUBLE_EQ(two.bound[row], e.bound[row] / std::log(2.0));
    EXPECT_GT(two.ratio(static_cast<int64_t>(row), 0, static_cast<float>(e.value[row])), 1);
  }
  EXPECT_EQ(two.ratio(0, 0, -kInf), 0);
  EXPECT_EQ(base2[TensorId::kO].value, natural[TensorId::kO].value);
  const auto ratio = [&](int32_t dead, float got) {
    c.plan.lse_dead = dead;
    const Reference r = c.reference();
    EXPECT_EQ(r.state[0], RowState::kDead);
    return r[TensorId::kLse].ratio(0, 0, got);
  };
  for (const float got : {-INFINITY, INFINITY, 0.0f, NAN, -5e4f}) {
    EXPECT_EQ(ratio(ATTN_LSE_DEAD_MINUS_INF, got), got == -kInf ? 0 : kInf);
    EXPECT_EQ(ratio(ATTN_LSE_DEAD_PLUS_INF, got), got == kInf ? 0 : kInf);
    EXPECT_EQ(ratio(ATTN_LSE_DEAD_ZERO, got), got == 0 ? 0 : kInf);
    EXPECT_EQ(ratio(ATTN_LSE_DEAD_ANY, got), 0);
  }
  EXPECT_GT(ratio(ATTN_LSE_DEAD_ZERO, 1e-30f), 1);
  EXPECT_EQ(c.reference()[TensorId::kO].ratio(0, 0, 1.0f), kInf) << "O of a dead row is 0 all the same";
}

TEST(Oracle, ZeroLengthsAreLegal) {
  Case no_keys({.seq_q = 3, .seq_k = 0});
  EXPECT_EQ(no_keys.reference().dead, 3);
  Case no_queries({.seq_q = 0, .seq_k = 3});
  EXPECT_EQ(no_queries.reference().rows, 0);
  Case no_batch({.batch = 0});
  EXPECT_EQ(no_batch.reference().rows, 0);
}

TEST(Oracle, ScaleZeroAndNegative) {
  Case c({.seq_q = 1, .seq_k = 2, .dim_qk = 1, .dim_v = 1});
  c.set_q(0, 0, 0, 0, 1);
  c.set_k(0, 0, 0, 0, 0);
  c.set_k(0, 0, 1, 0, 2);
  c.set_v(0, 0, 1, 0, 1);
  c.problem.scale = -0.5f;
  EXPECT_NEAR(c.reference()[TensorId::kO].value[0], std::exp(-1) / (1 + std::exp(-1)), 1e-15);
  c.problem.scale = 0;
  EXPECT_NEAR(c.reference()[TensorId::kO].value[0], 0.5, 1e-15);
}

TEST(Oracle, TheScaleIsTheFloatItIs) {
  Case c({.seq_q = 1, .seq_k = 1, .dim_qk = 1, .dim_v = 1});
  c.set_q(0, 0, 0, 0, 1024);
  c.set_k(0, 0, 0, 0, 1024);
  c.problem.scale = 0.1f;
  EXPECT_EQ(c.reference()[TensorId::kLse].value[0], static_cast<double>(0.1f) * 1048576);
}

TEST(Oracle, StridesGapsAndBroadcast) {
  Case c({.batch = 2, .heads_q = 2, .heads_kv = 2, .seq_q = 3, .seq_k = 5});
  c.fill(Regime::kGaussian, 8);
  // K and V of batch 0, head 0 everywhere.
  Case repeated = c;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t g = 0; g < 2; ++g)
      for (int64_t at = 0; at < 5 * 16; ++at) {
        repeated.k[static_cast<size_t>((b * 2 + g) * 80 + at)] = c.k[static_cast<size_t>(at)];
        repeated.v[static_cast<size_t>((b * 2 + g) * 80 + at)] = c.v[static_cast<size_t>(at)];
      }
  attn_tensors broadcast = c.tensors();
  for (attn_tensor* tensor : {&broadcast.k, &broadcast.v}) tensor->stride[0] = tensor->stride[1] = 0;
  // Q transposed: the innermost stride is not 1.
  std::vector<uint16_t> transposed(c.q.size());
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t t = 0; t < 16; ++t)
        transposed[static_cast<size_t>(head * 48 + t * 3 + i)] =
            c.q[static_cast<size_t>(head * 48 + i * 16 + t)];
  broadcast.q = {transposed.data(), {96, 48, 1, 3}};
  const Reference expected = repeated.reference();
  const Reference got = evaluate(c.problem, broadcast, c.plan, documented());
  EXPECT_EQ(got[TensorId::kO].value, expected[TensorId::kO].value);
  EXPECT_EQ(got[TensorId::kO].bound, expected[TensorId::kO].bound);
}

TEST(Oracle, SixteenBitBias) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    Case c({.seq_q = 1, .seq_k = 2, .bias_dtype = dtype});
    c.fill(Regime::kZeroQuery, 1);
    uint16_t bias[] = {encode16(dtype, 3), encode16(dtype, -1)};
    attn_tensors tensors = c.tensors();
    tensors.bias = {bias, {0, 0, 0, 1}};
    const Reference r = evaluate(c.problem, tensors, c.plan, documented());
    EXPECT_NEAR(r[TensorId::kLse].value[0], 3 + std::log1p(std::exp(-4)), 1e-14);
  }
}

TEST(Oracle, ABiasOfFloatMinimumIsNoDeadRow) {
  Case c({.seq_q = 1, .seq_k = 3, .dim_v = 1, .bias_dtype = ATTN_F32});
  c.fill(Regime::kZeroQuery, 1);
  c.bias = {-3.4028235e38f, 0, -3.4028235e38f};
  const Reference r = c.reference();
  ASSERT_EQ(r.state[0], RowState::kBounded);
  EXPECT_EQ(r[TensorId::kLse].value[0], 0);
  // With all biases that low, the scores overflow when multiplied by log2 e.
  c.bias = {-3.4028235e38f, -3.4028235e38f, -3.4028235e38f};
  EXPECT_EQ(c.reference().state[0], RowState::kUnconstrained);
}

// Buffers are kept from one evaluation of a thread to the next, and must not change its result.
TEST(Oracle, IsTheSameWhateverWasEvaluatedBefore) {
  std::vector<Case> cases;
  for (const Shape& shape : std::initializer_list<Shape>{{.seq_q = 40, .seq_k = 70, .dim_qk = 40, .dim_v = 24},
                                                         {.seq_q = 7, .seq_k = 9, .bias_dtype = ATTN_F32},
                                                         {.heads_q = 2, .seq_q = 9, .seq_k = 33, .mask = true},
                                                         {.dtype = ATTN_BF16, .seq_q = 20, .causal = true},
                                                         {.seq_q = 5, .seq_k = 60, .softcap = 2},
                                                         {.seq_q = 5, .seq_k = 60, .num_splits = 3}}) {
    for (const Regime regime : {Regime::kGaussian, Regime::kTiny, Regime::kPeaked, Regime::kWide}) {
      Case& c = cases.emplace_back(shape);
      c.fill(regime, 3);
      if (cases.size() % 3 > 0) declare_all(&c.plan);
    }
  }
  const auto bits = [](Case& c) {
    const Reference r = evaluate(c.problem, c.tensors(), c.plan, h200());
    std::vector<double> all(r.o_scatter.begin(), r.o_scatter.end());
    all.insert(all.end(), r.lse_scatter.begin(), r.lse_scatter.end());
    for (const Expected& e : r.outputs)
      for (const auto& of : {e.value, e.bound, e.exact}) all.insert(all.end(), of.begin(), of.end());
    return all;
  };
  std::vector<std::vector<double>> alone(cases.size());
  for (size_t n = 0; n < cases.size(); ++n) std::thread([&] { alone[n] = bits(cases[n]); }).join();
  for (const size_t step : {5u, 7u, 11u, 23u})
    for (size_t n = 0, at = 0; n < cases.size(); ++n, at = (at + step) % cases.size())
      ASSERT_EQ(bits(cases[at]), alone[at]) << at;
}

TEST(Oracle, SampleSkipsTheOtherRows) {
  Case c({.batch = 2, .heads_q = 2, .seq_q = 50, .seq_k = 20});
  c.fill(Regime::kGaussian, 2);
  const Reference all = c.reference();
  const Reference some = evaluate(c.problem, c.tensors(), c.plan, documented(), {.limit = 20, .seed = 5});
  EXPECT_EQ(some.sampled, 20);
  int64_t skipped = 0;
  for (size_t row = 0; row < all[TensorId::kLse].value.size(); ++row) {
    if (some.state[row] == RowState::kSkipped) {
      ++skipped;
      EXPECT_EQ(some[TensorId::kO].ratio(static_cast<int64_t>(row), 0, NAN), 0);
      EXPECT_EQ(some[TensorId::kLse].ratio(static_cast<int64_t>(row), 0, NAN), 0);
    } else {
      EXPECT_EQ(some[TensorId::kLse].value[row], all[TensorId::kLse].value[row]);
      EXPECT_EQ(some[TensorId::kO].bound[row * 16], all[TensorId::kO].bound[row * 16]);
    }
  }
  EXPECT_EQ(skipped, 180);
}

}  // namespace
}  // namespace attnfuzz
