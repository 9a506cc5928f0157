// Tests the separate judgement of split-K's stages: partials of each split, and the reduction of exact
// partials.
#include "reference/partials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "tests/reference/legal_kernels/emulation.h"

namespace attnfuzz {
namespace {

Shape split_shape(Random* random) {
  Shape shape;
  shape.dtype = static_cast<int32_t>(random->below(2));
  shape.heads_q = 2;
  shape.seq_q = 1 + random->below(5);
  shape.seq_k = random->below(150);
  shape.causal = random->below(2);
  shape.align = ATTN_BOTTOM_RIGHT;
  shape.num_splits = 1 + random->below(6);
  return shape;
}

// The largest ratio over the rows of one split of dense partials.
Worst worst_of_split(const Reference& reference, const Output& partials, int64_t split) {
  Output one;
  const auto rows = static_cast<size_t>(reference.rows),
             elements = rows * static_cast<size_t>(reference[TensorId::kO].columns);
  const auto s = static_cast<size_t>(split);
  one.lse.assign(partials.lse.begin() + static_cast<std::ptrdiff_t>(s * rows),
                 partials.lse.begin() + static_cast<std::ptrdiff_t>((s + 1) * rows));
  one.o.assign(partials.o.begin() + static_cast<std::ptrdiff_t>(s * elements),
               partials.o.begin() + static_cast<std::ptrdiff_t>((s + 1) * elements));
  return worst_of(reference, one);
}

TEST(Partials, CoverTheKeysOnceInOrder) {
  Case c({.seq_q = 1, .seq_k = 70, .tile_k = 16, .num_splits = 4});
  c.fill(Regime::kGaussian, 1);
  int64_t next = 0;
  for (int64_t s = 0; s < 4; ++s) {
    const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), s);
    EXPECT_EQ(p.first_key, next);
    next = p.last_key;
  }
  EXPECT_EQ(next, 70);
  // One key a tile, one tile a split.
  Case keys({.seq_q = 1, .seq_k = 3, .tile_k = 1, .num_splits = 3});
  for (int64_t s = 0; s < 3; ++s) {
    const PartialReference p = evaluate_partials(keys.problem, keys.tensors(), keys.plan, documented(), s);
    EXPECT_EQ(p.first_key, s);
    EXPECT_EQ(p.last_key, s + 1);
  }
}

TEST(Partials, MoreSplitsThanTilesLeavesEmptyOnes) {
  Case c({.seq_q = 2, .seq_k = 17, .tile_k = 16, .num_splits = 5});
  c.fill(Regime::kGaussian, 1);
  const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), 3);
  EXPECT_EQ(p.reference.dead, 2);
  EXPECT_EQ(p.reference[TensorId::kLse].ratio(0, 0, -INFINITY), 0);
  EXPECT_EQ(p.reference[TensorId::kO].ratio(0, 0, 0.0f), 0);
}

TEST(Partials, MergeToTheWhole) {
  Case c({.seq_q = 3, .seq_k = 70, .tile_k = 16, .num_splits = 3});
  c.fill(Regime::kGaussian, 1);
  const Reference whole = c.reference();
  for (size_t row = 0; row < 3; ++row) {
    double sum = 0, o = 0;
    for (int64_t s = 0; s < 3; ++s) {
      const Reference part = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), s).reference;
      sum += std::exp(part[TensorId::kLse].value[row] - whole[TensorId::kLse].value[row]);
      o += std::exp(part[TensorId::kLse].value[row] - whole[TensorId::kLse].value[row]) *
           part[TensorId::kO].value[row * 16];
    }
    EXPECT_NEAR(sum, 1, 1e-14);
    EXPECT_NEAR(o, whole[TensorId::kO].value[row * 16], 1e-14);
  }
}

TEST(Partials, NoFalseAlarmInEitherStage) {
  Random random(21);
  Worst partial, reduced;
  for (int k = 0; k < 400; ++k) {
    Case c(split_shape(&random));
    c.fill(kRegimes[k % 10], random.bits());
    const Emulated how{static_cast<Mma>(k / 10 % 3), static_cast<ExpError>(k / 30 % 3), Bug::kNone,
                       random.bits()};
    const Output partials = emulate_partials(c, how);
    for (int64_t s = 0; s < c.plan.num_splits; ++s) {
      const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), s);
      const Worst worst = worst_of_split(p.reference, partials, s);
      partial.o = std::max(partial.o, worst.o);
      partial.lse = std::max(partial.lse, worst.lse);
      partial.judged += worst.judged;
    }
    const Reference r = bound_reduce(c.problem, c.plan, documented(), c.plan.num_splits, partials.o.data(),
                                     partials.lse.data());
    const Worst worst = worst_of(r, emulate_reduce(c, partials, how));
    reduced.o = std::max(reduced.o, worst.o);
    reduced.lse = std::max(reduced.lse, worst.lse);
    reduced.judged += worst.judged;
    ASSERT_LE(partial.o, 1) << "case " << k;
    ASSERT_LE(partial.lse, 1) << "case " << k;
    ASSERT_LE(reduced.o, 1) << "case " << k;
    ASSERT_LE(reduced.lse, 1) << "case " << k;
  }
  // 400 cases of some six rows of 17 elements.
  EXPECT_GT(partial.judged, 30000);
  EXPECT_GT(reduced.judged, 30000);
  std::printf("  partial: O %.2f LSE %.2f; reduce: O %.2f LSE %.2f\n", partial.o, partial.lse, reduced.o,
              reduced.lse);
}

// The reduction of one row by the formulas of partials.h and weighted_mean.h: O and LSE with their bounds.
struct LiteralMerge {
  std::vector<long double> o, o_bound;
  long double lse = 0, lse_bound = 0;
};
LiteralMerge literal_merge(const Case& c, const Calibration& device, const std::vector<float>& lse,
                           const std::vector<float>& o) {
  using Real = long double;
  constexpr Real u = 0x1p-24L, tiny = 0x1p-126L;
  const auto gamma_of = [](Real m) { return m * u / (1 - m * u); };
  const auto columns = static_cast<size_t>(c.problem.dim_v);
  const bool one_by_one = c.plan.merge_rule == ATTN_MERGE_ONE_BY_ONE || c.plan.merge_rule == ATTN_MERGE_UNKNOWN;
  const Real all = std::max(c.plan.num_splits, c.plan.merges);
  const Real eps = device.fast_expf, slope = device.fast_expf_slope, eps_l = device.lg2;
  std::vector<Real> x, w, e;
  std::vector<const float*> v;
  for (size_t s = 0; s < lse.size(); ++s)
    if (lse[s] != -INFINITY) x.push_back(lse[s]), v.push_back(&o[s * columns]);
  const Real S = x.size(), m = *std::max_element(x.begin(), x.end());
  const Real rounds = one_by_one && all > 1 ? std::min(all, S) : 1;
  const Real steps = all == 1 || c.plan.merge_rule == ATTN_MERGE_BY_WEIGHT ? 0
                     : one_by_one                                          ? std::min(all, S)
                                                                           : 1;
  Real l = 0, most_e = 0, rho_w = 0, most_v = 0;
  for (const Real score : x) l += std::exp(score - m);
  const Real lam = m + std::log(l), g = gamma_of(S + 3);
  for (const Real score : x) {
    w.push_back(std::exp(score - lam));
    e.push_back((5 * u + 2 * slope) * (m - score) + S * (eps + 2 * u) + 2 * eps +
                rounds * 2 * u * (std::fabs(score) + std::fabs(m)));
    most_e = std::max(most_e, e.back());
    rho_w += w.back() * (std::exp(e.back()) * (1 + eps) - 1);
  }
  const Real lost = rho_w + g * (1 + rho_w);
  LiteralMerge out;
  out.lse = lam;
  out.lse_bound = -std::log(1 - lost) + 3 * u * std::fabs(m) + eps_l * (1 + std::log(l)) + 2 * u * std::log(l) +
                  3 * u * std::fabs(lam);
  const Real growth = steps == 0
                          ? 0
                          : std::expm1(steps * (3 * u * (std::fabs(lam) + std::min(most_e, lost)) +
                                                eps_l * (1 + std::log(S)) + 2 * u * std::log(S) + g + 2 * eps));
  const bool f16 = c.problem.dtype == ATTN_F16;
  const Real u_O = f16 ? 0x1p-11L : 0x1p-8L, eta_O = f16 ? 0x1p-25L : c.plan.flush_to_zero ? tiny : 0x1p-134L;
  for (const float* row : v)
    for (size_t col = 0; col < columns; ++col)
      most_v = std::max(most_v, std::fabs(static_cast<Real>(row[col])));
  for (size_t col = 0; col < columns; ++col) {
    Real mean = 0;
    for (size_t s = 0; s < w.size(); ++s) mean += w[s] * v[s][col];
    Real N = (g * (1 + rho_w) + tiny * S / l) * std::fabs(mean) + 3 * S * tiny / l;
    for (size_t s = 0; s < w.size(); ++s) {
      const Real rho = std::exp(e[s]) * (1 + eps) - 1;
      N +=
          w[s] * rho * std::fabs(v[s][col] - mean) +
          (g * w[s] * (1 + rho) + 2 * tiny * (steps > 0 ? S : 1) / l) * std::fabs(static_cast<Real>(v[s][col]));
    }
    Real B = N / (1 - lost);
    B += growth * (std::fabs(mean) + B);
    B += std::max<Real>(4 * u, device.rcp + 2 * u) * (std::fabs(mean) + B) + 2 * S * tiny * most_v;
    out.o.push_back(mean);
    out.o_bound.push_back(B + u_O * (std::fabs(mean) + B) + eta_O);
  }
  return out;
}

TEST(Partials, TheReductionsBoundIsItsDefinition) {
  for (int k = 0; k < 300; ++k) {
    Random random(static_cast<uint64_t>(k) + 77);
    Shape shape{.dtype = k % 2 ? ATTN_F16 : ATTN_BF16, .seq_q = 1 + random.below(3), .seq_k = 64};
    shape.dim_v = 1 + random.below(20), shape.num_splits = 1 + random.below(9);
    Case c(shape);
    c.plan.merge_rule = static_cast<int32_t>(random.below(4));
    c.plan.exp_class = ATTN_EXP_FAST_EXPF;
    c.plan.merges = random.below(3) ? shape.num_splits : 1 + random.below(20);
    c.plan.flush_to_zero = k % 3 != 0;
    Calibration device = documented();
    device.rcp = static_cast<double>(1 + random.below(6)) * 0x1p-24;
    const size_t rows = static_cast<size_t>(shape.seq_q), columns = static_cast<size_t>(shape.dim_v),
                 splits = static_cast<size_t>(shape.num_splits);
    const double far = k % 4 == 0 ? 300 : k % 4 == 1 ? 1 : 12, shift = k % 5 ? 3 * random.gaussian() : 4000;
    std::vector<float> o(splits * rows * columns), lse(splits * rows);
    for (float& v : o) v = static_cast<float>(random.gaussian()) * (k % 7 ? 1 : 0x1p-120f);
    for (float& x : lse)
      x = random.below(5) == 0 ? -INFINITY : static_cast<float>(shift + far * random.gaussian() / 3);
    // Values as large as their weights are small: only there does flushing show.
    const float most = *std::ranges::max_element(lse);
    for (size_t at = 0; k % 3 == 1 && at < o.size(); ++at)
      o[at] *= std::exp2(std::min(120.0f, 1.4f * (most - lse[at / columns])));
    const Reference got = bound_reduce(c.problem, c.plan, device, shape.num_splits, o.data(), lse.data());
    for (size_t row = 0; row < rows; ++row) {
      std::vector<float> x, v;
      for (size_t s = 0; s < splits; ++s) {
        x.push_back(lse[s * rows + row]);
        v.insert(v.end(), &o[(s * rows + row) * columns], &o[(s * rows + row) * columns] + columns);
      }
      if (std::ranges::count(x, -INFINITY) == shape.num_splits) continue;
      const LiteralMerge due = literal_merge(c, device, x, v);
      const auto near = [&](double bound, long double literal) {
        EXPECT_GE(bound, static_cast<double>(literal) * (1 - 1e-8)) << "case " << k;
        EXPECT_LE(bound, static_cast<double>(literal) * (1 + 1e-5)) << "case " << k;
      };
      EXPECT_NEAR(got[TensorId::kLse].value[row], static_cast<double>(due.lse), 1e-11) << "case " << k;
      near(got[TensorId::kLse].bound[row], due.lse_bound);
      for (size_t col = 0; col < columns; ++col) {
        EXPECT_NEAR(got[TensorId::kO].value[row * columns + col], static_cast<double>(due.o[col]),
                    1e-11 * (1 + std::abs(static_cast<double>(due.o[col]))));
        near(got[TensorId::kO].bound[row * columns + col], due.o_bound[col]);
      }
      if (HasFailure()) return;
    }
  }
}

// Keys far below the others of their row have no weight, and their scores' errors do not count.
TEST(Partials, KeysFarBelowCostNothing) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  for (const int32_t rule :
       {ATTN_MERGE_UNKNOWN, ATTN_MERGE_BY_WEIGHT, ATTN_MERGE_BY_LSE, ATTN_MERGE_ONE_BY_ONE}) {
    // A causal mask, so that rows of the first tile see no key of the second split; and one key of one row.
    for (const bool causal : {true, false}) {
      const auto masked = [&](float hidden) {
        Case c({.seq_q = 32, .seq_k = 32, .bias_dtype = ATTN_F32, .num_splits = 2});
        c.fill(Regime::kGaussian, 3);
        c.plan.merge_rule = rule;
        for (size_t n = 0; n < c.bias.size(); ++n) c.bias[n] = (causal ? n % 32 > n / 32 : n == 3) ? hidden : 0;
        return c.reference();
      };
      const Reference none = masked(-INFINITY);
      for (const float low : {-1e9f, -1e12f, -1e30f, kLowest}) {
        const Reference r = masked(low);
        EXPECT_EQ(r.uninformative, 0);
        for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
          for (size_t n = 0; n < r[t].value.size(); ++n) {
            ASSERT_NEAR(r[t].value[n], none[t].value[n], 1e-13);
            // The row sum adds more keys.
            ASSERT_LE(r[t].bound[n], 2 * none[t].bound[n]) << low << " rule " << rule << " element " << n;
          }
        }
      }
    }
  }
}

TEST(Partials, ReduceCatchesAForgottenSplit) {
  Case c({.dtype = ATTN_F16, .seq_q = 4, .seq_k = 64, .tile_k = 16, .num_splits = 4});
  c.fill(Regime::kGaussian, 2);
  Output partials = emulate_partials(c, {});
  const Reference r = bound_reduce(c.problem, c.plan, documented(), 4, partials.o.data(), partials.lse.data());
  for (size_t row = 0; row < 4; ++row) partials.lse[3 * 4 + row] = -INFINITY;
  EXPECT_GT(worst_of(r, emulate_reduce(c, partials, {})).o, 1);
}

TEST(Partials, ReduceOfNonFiniteNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Case c({.seq_q = 5, .seq_k = 32, .dim_v = 2, .num_splits = 2});
  // (split, row): plain; an LSE of inf; inf and NaN; values of inf and NaN; none.
  const float lse[] = {1, kInfinity, NAN, 1, -kInfinity, 2, 1, kInfinity, 1, -kInfinity};
  const float o[] = {3, 4, 3, 4, 3, 4, kInfinity, NAN, 0, 0, 5, 6, 5, 6, 5, 6, 5, -kInfinity, 0, 0};
  const Reference r = bound_reduce(c.problem, c.plan, documented(), 2, o, lse);
  EXPECT_EQ(r.state, (std::vector{RowState::kBounded, RowState::kUnconstrained, RowState::kNaN,
                                  RowState::kBounded, RowState::kDead}));
  EXPECT_EQ(r[TensorId::kO].rule, (std::vector<uint8_t>{0, 0, 2, 2, 1, 1, 2, 1, 0, 0}));
  EXPECT_EQ(r[TensorId::kLse].rule, (std::vector<uint8_t>{0, 2, 1, 0, 0}));
  EXPECT_EQ(r.sampled, 5);
  EXPECT_EQ(r.dead, 1);
  EXPECT_EQ(r.uninformative, 0);
  EXPECT_EQ(r.unconstrained, 2) << "a row, and a column of another";
  EXPECT_EQ(r[TensorId::kLse].value[4], -kInfinity);
  EXPECT_EQ(r[TensorId::kLse].bound[4], 0);
  EXPECT_EQ(r[TensorId::kO].bound[8], 0);
  // NaN stays due whatever else the column holds, in either order.
  const float both[] = {NAN, 1, kInfinity, 1}, ones[] = {1, 1};
  Case one({.seq_q = 1, .seq_k = 32, .dim_v = 2, .num_splits = 2});
  const Reference n = bound_reduce(one.problem, one.plan, documented(), 2, both, ones);
  EXPECT_EQ(n[TensorId::kO].rule, (std::vector<uint8_t>{1, 0}));
  const float infinite_first[] = {kInfinity, 1, NAN, 1}, nan_alone[] = {NAN, 1, 2, 1};
  EXPECT_EQ(n.unconstrained, 1);
  const Reference turned = bound_reduce(one.problem, one.plan, documented(), 2, infinite_first, ones);
  EXPECT_EQ(turned[TensorId::kO].rule, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(turned.unconstrained, 1);
  EXPECT_EQ(bound_reduce(one.problem, one.plan, documented(), 2, nan_alone, ones).unconstrained, 0);
  // LSEs are so large that rounding leaves the weights unknown: only the hull is known.
  one.plan.merge_rule = ATTN_MERGE_BY_WEIGHT;
  const float huge[] = {1e9f, 1e9f}, values[] = {1, 2, 3, 4};
  const Reference hull = bound_reduce(one.problem, one.plan, documented(), 2, values, huge);
  EXPECT_EQ(hull.uninformative, 1);
  EXPECT_EQ(hull.state[0], RowState::kUninformative);
  EXPECT_LE(hull[TensorId::kO].ratio(0, 0, 3), 1);
  EXPECT_GT(hull[TensorId::kO].ratio(0, 0, 3.1f), 1);
  // Rows of different keys, one after the other: each has its own splits.
  const float turns[] = {1, -kInfinity, 1, 1, 2, -kInfinity, 2, 2, -kInfinity};
  const float three[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Case rows({.seq_q = 3, .seq_k = 48, .dim_v = 1, .num_splits = 3});
  const Reference t = bound_reduce(rows.problem, rows.plan, documented(), 3, three, turns);
  const auto mean = [&](std::initializer_list<std::pair<double, double>> of) {
    double sum = 0, all = 0;
    for (const auto& [x, v] : of) sum += std::exp(x) * v, all += std::exp(x);
    return sum / all;
  };
  EXPECT_NEAR(t[TensorId::kO].value[0], mean({{1, 1}, {1, 4}, {2, 7}}), 1e-14);
  EXPECT_NEAR(t[TensorId::kO].value[1], mean({{2, 5}, {2, 8}}), 1e-14);
  EXPECT_NEAR(t[TensorId::kO].value[2], 3, 1e-14);
}

TEST(Partials, WithoutALengthOfSplitsThereIsOneSplit) {
  Case c({.seq_q = 1, .seq_k = 70, .tile_k = 16, .num_splits = 1});
  c.fill(Regime::kGaussian, 1);
  for (const bool tile : {false, true}) {
    c.plan.tile_k = tile ? 16 : 0, c.plan.split_tiles = tile ? 0 : 5;
    const PartialReference p = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), 0);
    EXPECT_EQ(p.split, 0);
    EXPECT_EQ(p.first_key, 0);
    EXPECT_EQ(p.last_key, 70);
    const PartialReference next = evaluate_partials(c.problem, c.tensors(), c.plan, documented(), 1);
    EXPECT_EQ(next.split, 1);
    EXPECT_EQ(next.first_key, 70);
    EXPECT_EQ(next.last_key, 70);
  }
}

TEST(Partials, ReduceIgnoresTheDataOfAnEmptySplit) {
  Case c({.seq_q = 1, .seq_k = 32, .dim_v = 1, .num_splits = 2});
  const float o[] = {0.5f, NAN}, lse[] = {1.0f, -INFINITY};
  const Reference r = bound_reduce(c.problem, c.plan, documented(), 2, o, lse);
  EXPECT_EQ(r[TensorId::kO].rule[0], 0);
  EXPECT_EQ(r[TensorId::kO].value[0], 0.5);
  EXPECT_EQ(r[TensorId::kLse].value[0], 1);
  const float none[] = {-INFINITY, -INFINITY};
  EXPECT_EQ(bound_reduce(c.problem, c.plan, documented(), 2, o, none).state[0], RowState::kDead);
  const float poisoned[] = {1.0f, NAN};
  EXPECT_EQ(bound_reduce(c.problem, c.plan, documented(), 2, o, poisoned).state[0], RowState::kNaN);
}

}  // namespace
}  // namespace attnfuzz
