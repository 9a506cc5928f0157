// Tests the single terms of a bound, and the tests for overflow. (bound_test.cc tests the whole bounds.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "reference/numbers/formats.h"
#include "reference/rows/row_terms.h"
#include "reference/rows/weighted_mean.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

// Tests both sides of each limit from which fp32 may overflow.
TEST(Overflow, OfScores) {
  constexpr double kScore = 0x1p127 / std::numbers::log2e;
  ErrorNumbers model;
  model.scale = 1;
  const auto is = [&](double absolute, double capped, double m, bool level, double misplaced) {
    return overflows(model, absolute, capped, m, level, misplaced);
  };
  EXPECT_FALSE(is(1, 0, 1, false, 0));
  EXPECT_FALSE(is(0x1p126, 0, 1, false, 0));
  EXPECT_TRUE(is(kScore, 0, 1, false, 0)) << "times log2 e";
  EXPECT_FALSE(is(std::nextafter(kScore, 0), 0, 1, false, 0));
  model.scale = -0.25;
  EXPECT_FALSE(is(0x1.ep126, 0, 1, false, 0));
  EXPECT_TRUE(is(0x1p127, 0, 1, false, 0)) << "before it is scaled";
  model.scale = -4;
  EXPECT_TRUE(is(0x1p125, 0, 1, false, 0)) << "once it is scaled";
  EXPECT_FALSE(is(0x1p124, 0, 1, false, 0));
  model.scale = 1;
  EXPECT_TRUE(is(NAN, 0, 1, false, 0));
  // Only the maximum counts: equally low scores do no harm.
  EXPECT_TRUE(is(1, 0, kScore, false, 0));
  EXPECT_TRUE(is(1, 0, -kScore, false, 0));
  EXPECT_TRUE(is(1, 0, kScore, true, 0));
  EXPECT_FALSE(is(1, 0, -kScore, true, 0));
  EXPECT_FALSE(is(1, 0, std::nextafter(kScore, 0), false, 0));
  EXPECT_FALSE(is(1, 0, std::numeric_limits<float>::lowest(), true, 0));
  EXPECT_TRUE(is(1, 0, -0x1p128, true, 0));
  EXPECT_TRUE(is(1, kScore, 1, false, 0));
  EXPECT_FALSE(is(1, std::nextafter(kScore, 0), 1, false, 0));
  // A cap that may be flushed.
  model.flushes = true, model.softcap = 0x1p-127;
  EXPECT_TRUE(is(1, 0, 1, false, 0));
  model.softcap = 0x1p-126;
  EXPECT_FALSE(is(1, 0, 1, false, 0));
  model.flushes = false, model.softcap = 0x1p-127;
  EXPECT_FALSE(is(1, 0, 1, false, 0));
  model.softcap = 0;
  // Misplaced weights: 2^60, or what P can hold.
  EXPECT_FALSE(is(1, 0, 1, false, std::nextafter(60.0, 0)));
  EXPECT_TRUE(is(1, 0, 1, false, 60));
}

// With a known maximum P is at most 1. With a lagging maximum P may be twice as large, if P's format holds
// that.
TEST(Overflow, OfP) {
  ErrorNumbers model;
  model.scale = 1, model.eps_exp = 0x1p-22;
  const auto least = [&](double overflow, int32_t rule) {
    model.p_overflow = overflow, model.max_rule = rule;
    double low = 0, high = 60;
    if (overflows(model, 1, 0, 1, false, 0)) return 0.0;
    while (high - low > 1e-9)
      (overflows(model, 1, 0, 1, false, (low + high) / 2) ? high : low) = (low + high) / 2;
    return high;
  };
  const auto near = [](double is, double due) { EXPECT_NEAR(is, due, 1e-5); };
  near(least(65520, ATTN_MAX_RUNNING), std::log2(65520));
  near(least(65520, ATTN_MAX_UNKNOWN), std::log2(65520) - 1);
  near(least(format_of(ATTN_BF16).overflow, ATTN_MAX_UNKNOWN), 60);
  // e4m3 times 256: 464 is the first number that is not rounded to 448.
  near(least(464.0 / 256, ATTN_MAX_WHOLE), std::log2(464.0 / 256));
  near(least(464.0 / 256, ATTN_MAX_UNKNOWN), std::log2(464.0 / 256));
  near(least(464.0 / 448, ATTN_MAX_WHOLE), std::log2(464.0 / 448));
  near(least(464, ATTN_MAX_UNKNOWN), std::log2(464) - 1);
  // With the scale 512 a P of 1 overflows.
  EXPECT_EQ(least(464.0 / 512, ATTN_MAX_WHOLE), 0);
  EXPECT_EQ(least(464.0 / 512, ATTN_MAX_UNKNOWN), 0);
  // The exponential's error exceeds the rest of the format's range.
  model.eps_exp = 0.1;
  EXPECT_EQ(least(464.0 / 448, ATTN_MAX_WHOLE), 0);
  near(least(464.0 / 256, ATTN_MAX_WHOLE), std::log2(464.0 / 256 / 1.1));
}

TEST(Overflow, OfColumns) {
  MeanTerms terms;
  EXPECT_EQ(partial_growth(terms), 1);
  EXPECT_TRUE(column_overflows(terms, 1, 2, 0x1p126, 1));
  EXPECT_FALSE(column_overflows(terms, 1, 2, 0x1.fp125, 1));
  EXPECT_TRUE(column_overflows(terms, 1, 1, NAN, 1));
  EXPECT_FALSE(column_overflows(terms, 1, 1, 1, 0x1p126)) << "no partials, V as it is";
  EXPECT_TRUE(may_overflow(terms, 1, 4, 0x1p124));
  EXPECT_FALSE(may_overflow(terms, 1, 4, 0x1.fp123));
  terms.misplaced = 4;
  EXPECT_TRUE(column_overflows(terms, 1, 2, 0x1p124, 1));
  EXPECT_FALSE(column_overflows(terms, 1, 2, 0x1.fp123, 1));
  EXPECT_TRUE(may_overflow(terms, 1, 1, 0x1p124));
  EXPECT_FALSE(may_overflow(terms, 1, 1, 0x1.fp123));
  terms.misplaced = 1, terms.partial_overflow = 512;
  EXPECT_TRUE(column_overflows(terms, 2, 1, 1, 256));
  EXPECT_FALSE(column_overflows(terms, 2, 1, 1, 255));
  EXPECT_TRUE(may_overflow(terms, 2, 1, 128));
  EXPECT_FALSE(may_overflow(terms, 2, 1, 127)) << "sums that are not near the limit are skipped";
  terms.v_overflow = 100;
  EXPECT_TRUE(column_overflows(terms, 2, 1, 1, 100));
  EXPECT_FALSE(column_overflows(terms, 2, 1, 1, 99));
  EXPECT_TRUE(may_overflow(terms, 2, 1, 100));
  EXPECT_FALSE(may_overflow(terms, 2, 1, 99));
  // The factor by which a partial may exceed its values.
  terms = {.sum_gamma = 0.25, .product_gamma = 0.5, .mma_gamma = 1, .p_unit = 3, .v_unit = 4};
  EXPECT_EQ(partial_growth(terms), 4 * 5 * 1.5 * 2 / 0.75);
  terms.sum_gamma = 2;
  EXPECT_EQ(partial_growth(terms), 4 * 5 * 1.5 * 2 / 0.5);
}

TEST(Overflow, OfTheOutput) {
  ErrorNumbers model;
  model.overflow = 100, model.o_unit = 0.5, model.o_tiny = 3;
  EXPECT_EQ(output_overflow(model), 153);
}

TEST(Terms, OfSums) {
  EXPECT_EQ(compound(0.5), 1);
  EXPECT_EQ(compound(0.2), 0.25);
  EXPECT_EQ(compound(1), kInfinity);
  EXPECT_EQ(compound(3), kInfinity);
  EXPECT_EQ(gamma(2, 0.25), 1);
  EXPECT_EQ(counted(0, 2), 0);
  EXPECT_EQ(counted(-1, 2), 2);
  EXPECT_EQ(counted(-3, 2), 3);
  ErrorNumbers model;
  model.tile_k = 16;
  EXPECT_EQ(rescales_of(model, 15, 16), 2);
  EXPECT_EQ(rescales_of(model, 16, 31), 1);
  model.split_tiles = 2;
  EXPECT_EQ(rescales_of(model, 0, 63), 2);
  EXPECT_EQ(rescales_of(model, 0, 15), 1);
  model.rescales = 5;
  EXPECT_EQ(rescales_of(model, 0, 63), 5);
  EXPECT_EQ(rescales_of(model, 0, 0), 5);
  model.rescales = 1;
  EXPECT_EQ(rescales_of(model, 0, 63), 2);
}

TEST(Terms, OfAPredictedP) {
  ErrorNumbers model;
  EXPECT_FALSE(p_is_predicted(model));
  model.p_predicted = ATTN_F16;
  model.eps_exp = 0.06;
  EXPECT_TRUE(p_is_predicted(model));
  model.eps_exp = 0.0625;
  EXPECT_FALSE(p_is_predicted(model));
}

// Rounding to nearest even, around every tie and among the subnormals.
TEST(Terms, OfRounding) {
  Random random(3);
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    const int significant = dtype == ATTN_F16 ? 11 : 8, least = dtype == ATTN_F16 ? -14 : -126;
    const Rounding rounding = rounding_of(dtype);
    const auto expect = [&](double x) {
      const double quantum = std::ldexp(1.0, std::max(x > 0 ? std::ilogb(x) : least, least) - significant + 1);
      ASSERT_EQ(rounding(x), std::nearbyint(x / quantum) * quantum) << x;
    };
    expect(0);
    for (int exponent = least - significant - 2; exponent < 3; ++exponent)
      for (int k = 0; k < 40; ++k) {
        const double quantum = std::ldexp(1.0, std::max(exponent, least) - significant + 1);
        const double tie = (std::floor(std::ldexp(1 + random.uniform(), exponent) / quantum) + 0.5) * quantum;
        for (const double x : {tie, std::nextafter(tie, 0), std::nextafter(tie, 8), std::ldexp(1.0, exponent),
                               std::ldexp(1 + random.uniform(), exponent)})
          expect(x);
      }
  }
}

// The charge of a key (and with it h) shows where both ends of p begin to round to the same value: at
// a tie (1 + 2^-11 in fp16) over 1 - h, and below it at the tie over 1 + h + h^2.
TEST(Terms, OfOneRoundedKey) {
  ErrorNumbers model;
  model.p_predicted = ATTN_F16;
  double x = 0, max = 0, uncertain = 0, error = 0, absolute = 0;
  const auto charged = [&](double p) {
    return round_key({model, max, uncertain, 1, 0}, p, x, error, absolute).charge > 0;
  };
  constexpr double kTie = 1 + 0x1p-11;
  // The width of the charged interval on one side of the tie, relative to p.
  const auto side = [&](bool above) {
    double in = kTie, out = above ? 2 * kTie : kTie / 2;
    // The steps are smaller than the distance to the next tie.
    for (double step = 0x1p-50; step < 0x1p-2; step *= 2) {
      const double p = above ? kTie * (1 + step) : kTie * (1 - step);
      if (!charged(p)) {
        out = p;
        break;
      }
      in = p;
    }
    for (int k = 0; k < 60; ++k) (charged((in + out) / 2) ? in : out) = (in + out) / 2;
    return above ? 1 - kTie / in : kTie / in - 1;
  };
  const auto expect_h = [&](double h) {
    EXPECT_NEAR(side(true), h, 1e-3 * h + 0x1p-51);
    EXPECT_NEAR(side(false), h + h * h, 1e-3 * h + 0x1p-51);
  };
  expect_h(0x1p-46);
  model.eps_exp = 3e-6;
  expect_h(3e-6);
  model.eps_exp = 0, model.p_scale = 4;
  expect_h(0x1p-24);
  model.p_scale = 1, error = 1e-5;
  expect_h(1e-5);
  uncertain = 2e-5;
  expect_h(3e-5);
  error = uncertain = 0, x = -2, max = 3;
  expect_h(5 * kU * 5);
  model.eps_exp_slope = 0x1p-18;
  expect_h(0x1p-18 * 5 + 5 * kU * 5);
  model.eps_exp_slope = 0.5, x = max = 0, error = 1e-5, uncertain = 2e-5;
  expect_h(1.5 * 3e-5);
  model.eps_exp_slope = 0, error = uncertain = 0, x = max = 0x1p30;
  expect_h(0x1p-46 + 2 * 0x1p-18);
  x = max = 0, absolute = 0x1p32, model.scale = -0.5;
  expect_h(0x1p-46 + 0x1p-17);
  absolute = 0, error = 2e-4;
  expect_h(2e-4);
  EXPECT_FALSE(round_key({model, 0, 0, 1, 0}, 1, 0, 0.12, 0).bad);
  EXPECT_TRUE(round_key({model, 0, 0, 1, 0}, 1, 0, 0.13, 0).bad);
  EXPECT_TRUE(round_key({model, 0, 0, 1, 0}, 1, 0, NAN, 0).bad);

  // Centre and charge of the two ends, of A_t / l and of phi.
  const RoundedKey far = round_key({model, 0, 0, 3, 0.25}, 1.25, 0, 0, 0);
  EXPECT_EQ(far.centre, 3 * 1.25);
  EXPECT_EQ(far.charge, 3 * 0.25 * 1.25);
  const RoundedKey tie = round_key({model, 0, 0, 3, 0.25}, kTie, 0, 0, 0);
  EXPECT_EQ(tie.centre, 3 * kTie);
  EXPECT_EQ(tie.charge, 3 * (0x1p-11 + 0.25 * (kTie + 0x1p-11)));
  model.p_scale = 2;
  const RoundedKey scaled = round_key({model, 0, 0, 3, 0}, 2 * kTie, 0, 0, 0);
  EXPECT_EQ(scaled.centre, 3 * kTie);
  EXPECT_EQ(scaled.charge, 3 * 0x1p-11);
  // P may be flushed if P times its scale, or P itself, is below 2^-126.
  model.p_predicted = ATTN_BF16;
  for (const double scale : {0.5, 1.0, 4.0}) {
    model.p_scale = scale;
    const double border = 0x1p-126 * std::max(scale, 1.0);
    EXPECT_GT(round_key({model, 0, 0, 1, 0}, 0.99 * border, 0, 0, 0).charge, 0.4 * border / scale) << scale;
    EXPECT_LT(round_key({model, 0, 0, 1, 0}, 1.01 * border, 0, 0, 0).charge, 0.1 * border / scale) << scale;
  }
}

TEST(Terms, OfTheMean) {
  ErrorNumbers m;
  m.splits = 3, m.tensor_cores = true, m.key_order = ATTN_KEYS_DESCENDING;
  m.product_unit = 0x1p-7, m.sum_unit = 0x1p-6, m.mma_block = 4, m.least_value = 0x1p-140;
  m.eps_exp = 0.125, m.eps_log = 3, m.eps_reciprocal = 5, m.p_unit = 0.5, m.p_tiny = 0x1p-127, m.v_unit = 7;
  m.v_tiny = 9, m.v_overflow = 11, m.o_unit = 13, m.o_tiny = 15, m.partial_unit = 17, m.partial_tiny = 19;
  m.partial_overflow = 21, m.merge_steps = 2;
  const ScoreTerms scores = {.rescales = 6, .sum_gamma = 0.25, .misplaced = 2, .largest_delta = std::log(8.0)};
  MeanTerms t = mean_terms(m, scores, 0.2);
  EXPECT_EQ(t.eps_exp, 0.125);
  EXPECT_EQ(t.eps_weight, 0.125);
  EXPECT_EQ(t.sum_gamma, 0.25 + gamma(6, kU));
  EXPECT_EQ(t.product_gamma, gamma(2 * 6 + 2 * 3 + 3, kU));
  EXPECT_EQ(t.mma_gamma, 0.25);
  EXPECT_TRUE(t.consecutive);
  EXPECT_EQ(t.p_unit, 0.5);
  EXPECT_EQ(t.aligned_tiny, (16 * 0x1p-7 + 4 * 0x1p-6) * 0x1p-140);
  EXPECT_EQ(t.hull_tiny, 4 * 0x1p-126 + t.aligned_tiny) << "P's own 2^-127 is less than flushing";
  EXPECT_DOUBLE_EQ(t.p_tiny, 8 * t.hull_tiny);
  EXPECT_DOUBLE_EQ(t.grown_by_delta, 8);
  EXPECT_EQ(t.misplaced, 2);
  EXPECT_EQ((std::array{t.rescales, t.eps_log, t.eps_reciprocal, t.o_unit, t.o_tiny, t.v_unit, t.v_tiny,
                        t.v_overflow}),
            (std::array<double, 8>{6, 3, 5, 13, 15, 7, 9 * 1.5 * (1 + gamma(21, kU)) * 1.25, 11}));
  EXPECT_EQ(
      (std::array{t.partial_unit, t.partial_tiny, t.partial_overflow, t.merged, t.merge_steps, t.tile_costs}),
      (std::array<double, 6>{17, 19, 21, 3, 2, 0.2}));
  EXPECT_EQ((std::array{t.merge_unit, t.merge_tiny, t.weight_tiny}), (std::array{0.0, 0.0, 0.0}));
  m.merge_unit = 23, m.merge_tiny = 0.5;
  t = mean_terms(m, scores, 0.2);
  EXPECT_EQ((std::array{t.merge_unit, t.merge_tiny, t.partial_tiny}), (std::array{23.0, 1.0, 38.0}));
  EXPECT_DOUBLE_EQ(t.weight_tiny, 8 * 18 * 1.5 * 8 * 1.25 * (1 + t.product_gamma));
  EXPECT_EQ(merged_tiny(t), 3) << "two products of three, and their sum";
  m.partial_tiny = 0;
  EXPECT_EQ(merged_tiny(mean_terms(m, scores, 0.2)), 4) << "the third is of a partial in fp32";
  MeanTerms sums;
  sums.merge_unit = 0.5;
  EXPECT_EQ((Stored{}(sums, 1.0, 1.0)), 2 + 4 * kU * 3) << "what is divided, and by what";
  EXPECT_EQ(t.least_factor, 0x1p-140);
  EXPECT_FALSE(t.rounded_sum);
  m.p_tiny = 0x1p-25, m.rounded_sum = true, m.splits = 1, m.key_order = ATTN_KEYS_ANY;
  t = mean_terms(m, scores, 0.2);
  EXPECT_EQ(t.hull_tiny, 2 * (0x1p-25 + 0x1p-126) + t.aligned_tiny);
  EXPECT_EQ(t.eps_weight, 1.125 * 1.5 - 1);
  EXPECT_EQ(t.p_unit, 0);
  EXPECT_TRUE(t.rounded_sum);
  EXPECT_FALSE(t.consecutive);
  EXPECT_EQ(t.merged, 0);
  EXPECT_EQ(t.weight_tiny, 0) << "the only weight is 1";
  EXPECT_EQ(merged_tiny(t), t.merge_tiny);
  EXPECT_EQ(t.sum_gamma, 0.25);
  m.tensor_cores = false, m.key_order = ATTN_KEYS_CONSECUTIVE;
  EXPECT_FALSE(mean_terms(m, scores, 0.2).consecutive);
}

// Tests terms by themselves that are too small to show in a whole bound.
TEST(Terms, OfColumns) {
  MeanTerms t;
  EXPECT_EQ(merge_growth(t, 5, 6, 7), 0);
  t.merge_steps = 2, t.merged = 1;
  EXPECT_DOUBLE_EQ(merge_growth(t, 5, 6, 7), std::expm1(2 * (33 * kU + gamma(4, kU))));
  EXPECT_DOUBLE_EQ(merge_growth(t, 5, 6, 4), std::expm1(2 * (27 * kU + gamma(4, kU))))
      << "what the LSE errs by";
  EXPECT_DOUBLE_EQ(merge_growth(t, 5, 6, NAN), merge_growth(t, 5, 6, 7));
  t = {.eps_exp = 0.25,
       .rescales = 3,
       .eps_log = 0.5,
       .partial_unit = 0x1p-3,
       .partial_tiny = 0x1p-120,
       .merged = 4};
  t.mma_gamma = 0.5, t.v_unit = 0.75, t.v_tiny = 0x1p-121, t.aligned_tiny = 0x1p-122, t.least_factor = 2;
  t.misplaced = 4, t.grown_by_delta = 8, t.tile_costs = 0.25;
  const KnownCharges of = charges_of_known(t, 0.5, 16);
  EXPECT_EQ(of.relative, 0.75 + gamma(11, kU) + 0x1p-3 * 1.5 / 0.5);
  EXPECT_EQ(of.tiny, (2 * 0x1p-126 * 32 + 0x1p-122) / 16);
  t.merged = 0;
  EXPECT_EQ(charges_of_known(t, 0.5, 16).relative, 0.75 + gamma(5, kU) + 0x1p-3 * 1.5 / 0.5);
  const double constant = (10 + 6) * 0x1p-126 / 16 + 0x1p-120 + 0x1p-121 + 0x1p-122 * (1 + 10 * 2.0 / 16);
  EXPECT_EQ(constant_of(t, 10, 16), constant);
  KnownShares known = shares_of_known(t, 0, 10, 16);
  EXPECT_EQ((std::array{known.lost, known.grown, known.of_o, known.constant}),
            (std::array{0.0, 1 + 0.5 / 0.75, 0x1p-126 * 10 / 16, constant}));
  known = shares_of_known(t, 0.5, 10, 16);
  EXPECT_EQ((std::array{known.lost, known.of_o}), (std::array{0.5, 0.5}));
  EXPECT_EQ(lost_of_known(0.75, 0), 0.25);
  EXPECT_EQ(lost_of_known(0.75, 0.5), 0.25 + 0.5 * 1.25);
  t.p_tiny = 0x1p-100;
  EXPECT_EQ(lost_of(t, 0.25, 10, 16), 0.25);
  t.rounded_sum = true;
  EXPECT_EQ(lost_of(t, 0, 10, 16), 0x1p-100 * 10 / 16);
  EXPECT_EQ(shares_of_plain(t, 0, 1, 10, 16).of_o, 0x1p-100 * 10 / 16);
  t.rounded_sum = false;
  EXPECT_EQ(shares_of_plain(t, 0, 1, 10, 16).of_o, 0x1p-126 * 10 / 16);
  t.sum_gamma = 0.5;
  EXPECT_EQ(shares_of_plain(t, 0.25, 1, 10, 16).of_o, 0.5 * 1.25);
  // Beyond 4096 keys the products are bounded separately, if their order is consecutive.
  t.consecutive = true;
  EXPECT_FALSE(shares_of_plain(t, 0, 1, 4096, 16).long_row);
  EXPECT_EQ(shares_of_plain(t, 0, 1, 4096, 16).rounding, 1.75 * 1.5 - 1);
  EXPECT_TRUE(shares_of_plain(t, 0, 1, 4097, 16).long_row);
  EXPECT_EQ(shares_of_plain(t, 0, 1, 4097, 16).rounding, 0.75);
  EXPECT_EQ(shares_of_plain(t, 0, 0.5, 4097, 16).partial, 0x1p-3 * 1.75 / 0.5);
  t.consecutive = false;
  EXPECT_FALSE(shares_of_plain(t, 0, 1, 4097, 16).long_row);
  EXPECT_EQ(hull_pad(t, 0, 0x1p-10, 10), 0x1p-120 + 0x1p-121 + 0x1p-122 * (1 + 20));
  // Partials that are merged in 16 bits.
  MeanTerms merging = t;
  merging.merge_tiny = 0x1p-90, merging.weight_tiny = 0x1p-80;
  EXPECT_EQ(constant_of(merging, 10, 16), constant + 0x1p-90 * 8 / 16);
  EXPECT_EQ(charges_of_known(merging, 0.5, 16).tiny, (2 * 0x1p-126 * 32 + 0x1p-122 + 0x1p-80) / 16);
  EXPECT_EQ(shares_of_plain(merging, 0, 1, 10, 16).tiny, (0x1p-100 + 0x1p-80) / 16);
  EXPECT_GT(hull_pad(merging, 0, 2, 10), 0x1p-90);
  EXPECT_LT(hull_pad(merging, 0, 2, 10), 1.1 * 0x1p-90);
  merging.merged = 4;
  EXPECT_NEAR(hull_pad(merging, 0, 2, 10) * 0x1p90, 10 * 2 + 4, 0.01);
  t.hull_tiny = 0x1p-100;
  EXPECT_EQ(hull_pad(t, 0.5, 2, 10), 1 + (0x1p-100 * 10 * 2 + 0x1p-120 + 0x1p-121 + 0x1p-122 * 21));
}

// Default-constructed terms charge nothing.
TEST(Terms, OfNothingAreNothing) {
  const ErrorNumbers m;
  for (const double number :
       {m.sum_unit,        m.dim_qk,      m.score_gamma,  m.score_block,     m.least_factor,
        m.flushed_factor,  m.scale,       m.softcap,      m.folded_unit,     m.folded_tiny,
        m.folded_overflow, m.factor_unit, m.factor_tiny,  m.factor_overflow, m.eps_exp,
        m.eps_exp_slope,   m.eps_log,     m.eps_tanh,     m.eps_reciprocal,  m.p_unit,
        m.p_tiny,          m.v_unit,      m.v_tiny,       m.v_overflow,      m.o_unit,
        m.o_tiny,          m.overflow,    m.partial_unit, m.partial_tiny,    m.partial_overflow,
        m.merge_steps,     m.merge_unit,  m.merge_tiny,   m.least_value})
    EXPECT_EQ(number, 0);
  EXPECT_EQ((std::array{m.split_tiles, m.rescales, m.sum_lanes}), (std::array<int64_t, 3>{0, 0, 0}));
  EXPECT_EQ((std::array{m.mma_block, m.tile_k, m.splits}), (std::array<int64_t, 3>{1, 1, 1}));
  EXPECT_EQ((std::array{m.product_unit, m.p_scale, m.merge_rounds, m.p_overflow}),
            (std::array{0x1p-24, 1.0, 1.0, 0x1p127}));
  EXPECT_FALSE(m.tensor_cores || m.ascending_dot || m.fused || m.may_be_fused || m.rounded_sum || m.flushes ||
               m.merge_by_maximum || m.isolates_masked_nan);
  const MeanTerms t;
  for (const double number :
       {t.eps_exp,      t.eps_weight,   t.sum_gamma,        t.product_gamma,  t.mma_gamma,   t.p_unit,
        t.p_tiny,       t.rescales,     t.eps_log,          t.eps_reciprocal, t.o_unit,      t.o_tiny,
        t.partial_unit, t.partial_tiny, t.partial_overflow, t.merged,         t.merge_steps, t.v_unit,
        t.v_tiny,       t.aligned_tiny, t.least_factor,     t.v_overflow,     t.hull_tiny,   t.tile_costs,
        t.merge_unit,   t.merge_tiny,   t.weight_tiny})
    EXPECT_EQ(number, 0);
  EXPECT_EQ(t.grown_by_delta, 1);
  EXPECT_EQ(t.misplaced, 1);
  EXPECT_FALSE(t.consecutive || t.rounded_sum);
  EXPECT_EQ(KeyPlaces{}.count + Values{}.columns + Values{}.count + Operands{}.dim_qk + Operands{}.count, 0);
  EXPECT_FALSE(MeanRow{}.known);
  EXPECT_FALSE(Expected{}.logarithm);
  EXPECT_EQ(Expected{}.overflow, 0);
}

// A hull with a negative spread is infinite: g_l above 1 turned its sign.
TEST(Terms, OfAHull) {
  MeanTerms terms;
  EXPECT_EQ(hull_bound(terms, {}, 3, 0, 1), 3);
  terms.sum_gamma = 2;
  EXPECT_EQ(hull_bound(terms, {}, 3, 1, 1), kInfinity);
  terms.sum_gamma = 0.5;
  EXPECT_GE(hull_bound(terms, {}, 3, 1, 1), 4);
}

}  // namespace
}  // namespace attnfuzz
