// Tests each loop over a row's keys at every level of x86-64 that this machine runs, for all numbers of keys
// near multiples of a register's width. Compares it with its definition.
#include "reference/rows/row_loops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/reference/random.h"

namespace attnfuzz {
namespace {

using Doubles = std::vector<double>;

// n doubles, and one more behind them that no loop may use.
Doubles gaussians(Random* random, int64_t n, double beyond = 1e300) {
  Doubles out;
  for (int64_t k = 0; k < n; ++k) out.push_back(random->gaussian());
  out.push_back(beyond);
  return out;
}
Doubles sizes_of(Doubles x) {
  for (double& one : x) one = std::abs(one);
  return x;
}

// of(loops, n, random) returns all output of a loop. It must have the same bits at each level.
template <class Of>
void expect_same_bits(const Of& of) {
  const std::vector<RowLoops> levels = row_loop_levels();
  for (int64_t n = 1; n <= 50; ++n) {
    Random random(static_cast<uint64_t>(n));
    const Doubles expected = of(levels.back(), n, &random);
    for (const RowLoops& level : levels) {
      Random again(static_cast<uint64_t>(n));
      ASSERT_EQ(of(level, n, &again), expected) << level.name << ", " << n << " keys";
    }
  }
}

TEST(RowLoops, Levels) {
  EXPECT_STREQ(row_loop_levels().back().name, "as compiled");
  EXPECT_STREQ(row_loops().name, row_loop_levels().front().name);
#ifdef __x86_64__
  if (__builtin_cpu_supports("x86-64-v4") && !std::getenv("ATTNFUZZ_LEVEL"))
    EXPECT_STREQ(row_loops().name, "x86-64-v4");
#endif
}

TEST(RowLoops, Exponentials) {
  Random random(1);
  Doubles x = {0, -0.0, -708, 709, 700, -700, 1e-300, std::log(2) / 2, -std::log(2) / 2};
  for (int k = 0; k < 20000; ++k)
    x.push_back((random.uniform() * 2 - 1) * std::exp2(static_cast<double>(k % 40) - 30));
  Doubles out(x.size());
  const auto n = static_cast<int64_t>(x.size());
  row_loops().exponentials(x.data(), n, 0, out.data());
  EXPECT_EQ(out[0], 1);
  for (size_t k = 0; k < x.size(); ++k) {
    const long double due = std::exp(static_cast<long double>(x[k]));
    if (x[k] < -708)
      ASSERT_EQ(out[k], 0) << x[k];
    else if (x[k] > 709)
      ASSERT_EQ(out[k], HUGE_VAL) << x[k];
    else
      ASSERT_NEAR(out[k] / due, 1, 0x1p-51) << x[k];
  }
  Doubles odd = {NAN, -HUGE_VAL, HUGE_VAL, -1e308, 1e308, 709.5, -708.5}, of(odd.size());
  row_loops().exponentials(odd.data(), 7, 0, of.data());
  EXPECT_TRUE(std::isnan(of[0]));
  EXPECT_EQ(Doubles(of.begin() + 1, of.end()), (Doubles{0, HUGE_VAL, 0, HUGE_VAL, HUGE_VAL, 0}));
  expect_same_bits([](const RowLoops& loops, int64_t n, Random* random) {
    const Doubles x = gaussians(random, n);
    Doubles out(x.size(), 5);
    const double sum = loops.exponentials(x.data(), n, 0.25, out.data());
    EXPECT_EQ(sum, loops.sum(out.data(), n));
    for (int64_t k = 0; k < n; ++k) EXPECT_NEAR(out[k] / std::exp(x[k] - 0.25), 1, 1e-15);
    EXPECT_EQ(out.back(), 5);
    return out;
  });
}

TEST(RowLoops, Sums) {
  expect_same_bits([](const RowLoops& loops, int64_t n, Random* random) {
    const Doubles x = gaussians(random, n);
    double due = 0;
    for (int64_t k = 0; k < n; ++k) due += x[k];
    const double sum = loops.sum(x.data(), n);
    EXPECT_NEAR(sum, due, 1e-13);
    return Doubles{sum};
  });
}

TEST(RowLoops, Scores) {
  for (const bool ascending : {false, true})
    expect_same_bits([&](const RowLoops& loops, int64_t n, Random* random) {
      const Doubles dot = gaussians(random, n), size = sizes_of(gaussians(random, n)),
                    before = sizes_of(gaussians(random, n));
      Doubles x(dot.size(), 5), delta = x, error = x, e = x;
      const ScoreExtent at_once = loops.scores(dot.data(), size.data(), ascending ? before.data() : nullptr, n,
                                               {.scale = -3, .factor = 0.5, .least = 0.125, .unit = 0.25},
                                               x.data(), delta.data(), e.data());
      for (int64_t k = 0; k < n; ++k) {
        EXPECT_EQ(x[k], -3 * dot[k]);
        EXPECT_NEAR(delta[k], 3 * ((size[k] + (ascending ? before[k] : 0)) * 0.5 + 0.125), 1e-14);
      }
      const ScoreExtent extent = loops.extent(x.data(), delta.data(), size.data(), n);
      EXPECT_EQ(extent.largest_x, *std::max_element(x.begin(), x.end() - 1));
      EXPECT_EQ(extent.least_x, *std::min_element(x.begin(), x.end() - 1));
      EXPECT_EQ(extent.largest_delta, *std::max_element(delta.begin(), delta.end() - 1));
      EXPECT_EQ(extent.largest_size, *std::max_element(size.begin(), size.end() - 1));
      EXPECT_EQ(at_once.largest_x, extent.largest_x);
      EXPECT_EQ(at_once.least_x, extent.least_x);
      EXPECT_EQ(at_once.largest_delta, extent.largest_delta);
      EXPECT_EQ(at_once.largest_size, extent.largest_size);
      loops.errors(x.data(), delta.data(), n, 0.25, error.data());
      EXPECT_EQ(e, error);
      for (int64_t k = 0; k < n; ++k) EXPECT_NEAR(error[k], delta[k] + 0.25 * std::abs(x[k]), 1e-14);
      double largest_error = 0;
      const Maximum reach = loops.reach(x.data(), error.data(), n, &largest_error);
      Maximum due;
      for (int64_t k = 0; k < n; ++k) due.take({x[k], x[k] - error[k], x[k] + error[k]});
      EXPECT_EQ(reach.exact, due.exact);
      EXPECT_EQ(reach.low, due.low);
      EXPECT_EQ(reach.high, due.high);
      EXPECT_EQ(largest_error, *std::max_element(error.begin(), error.end() - 1));
      const double largest = loops.allowances(x.data(), delta.data(), error.data(), n, 40, 2, 0.5, 7, e.data());
      for (int64_t k = 0; k < n; ++k) EXPECT_NEAR(e[k], error[k] + 0.5 * (40 - x[k] + delta[k] + 2) + 7, 1e-13);
      EXPECT_EQ(largest, *std::max_element(e.begin(), e.end() - 1));
      for (const Doubles* out : {&x, &delta, &error, &e}) EXPECT_EQ(out->back(), 5);
      Doubles all = x;
      for (const Doubles* out : {&delta, &error, &e}) all.insert(all.end(), out->begin(), out->end());
      return all;
    });
}

TEST(RowLoops, RoundedTiles) {
  expect_same_bits([](const RowLoops& loops, int64_t n, Random* random) {
    ErrorNumbers model;
    model.p_predicted = ATTN_F16, model.p_scale = 4, model.scale = 0.5, model.eps_exp = 0x1p-22;
    const KeyRounding tile(model, 3, 0x1p-20, 0.75, 0x1p-18);
    const Doubles x = gaussians(random, n), error = sizes_of(gaussians(random, n, 0));
    Doubles weight = sizes_of(gaussians(random, n)), off = error, centre(x.size(), 5), charge = centre;
    for (double& one : off) one *= 0x1p-16;
    bool fine = loops.round_tile(tile, weight.data(), 0.5, x.data(), off.data(), error.data(), n, centre.data(),
                                 charge.data());
    EXPECT_TRUE(fine);
    for (int64_t k = 0; k < n; ++k) {
      const RoundedKey key = round_key(tile, weight[k] * 0.5 * 4, x[k], off[k], error[k]);
      EXPECT_EQ(centre[k], key.centre);
      EXPECT_EQ(charge[k], key.charge);
    }
    EXPECT_EQ(centre.back(), 5);
    EXPECT_EQ(charge.back(), 5);
    Doubles all = centre;
    all.insert(all.end(), charge.begin(), charge.end());
    off[static_cast<size_t>(n / 2)] = 0.125;
    fine = loops.round_tile(tile, weight.data(), 0.5, x.data(), off.data(), error.data(), n, centre.data(),
                            charge.data());
    EXPECT_FALSE(fine) << "too uncertain";
    return all;
  });
}

TEST(RowLoops, Weights) {
  expect_same_bits([](const RowLoops& loops, int64_t n, Random* random) {
    const Doubles weight = sizes_of(gaussians(random, n));
    Doubles e = sizes_of(gaussians(random, n)), w(weight.size(), 5), error = w;
    for (double& one : e) one /= 64;
    const double sum = loops.weigh(weight.data(), e.data(), n, 8, 0.25, w.data(), error.data());
    double due = 0;
    for (int64_t k = 0; k < n; ++k) {
      EXPECT_EQ(w[k], weight[k] / 8);
      const double rho = std::exp(e[k]) * 1.25 - 1;
      EXPECT_GE(error[k], w[k] * rho * (1 - 1e-14));
      EXPECT_LE(error[k], w[k] * rho * (1 + 1e-5));
      due += error[k];
    }
    EXPECT_NEAR(sum, due, 1e-13);
    EXPECT_EQ(w.back(), 5);
    EXPECT_EQ(error.back(), 5);
    w.insert(w.end(), error.begin(), error.end());
    w.push_back(sum);
    return w;
  });
}

TEST(RowLoops, Charges) {
  expect_same_bits([](const RowLoops& loops, int64_t n, Random* random) {
    const Doubles centre = sizes_of(gaussians(random, n)), charge = sizes_of(gaussians(random, n));
    Doubles all(centre.size(), 5);
    double least = HUGE_VAL, most = 0;
    loops.charges(centre.data(), charge.data(), n, 0.5, 0.25, 3, all.data(), &least, &most);
    for (int64_t k = 0; k < n; ++k)
      EXPECT_NEAR(all[k], charge[k] + 0.5 * (centre[k] + charge[k]) + 0.25 + 3 * centre[k], 1e-14);
    EXPECT_EQ(all.back(), 5);
    EXPECT_EQ(least, *std::min_element(all.begin(), all.end() - 1));
    EXPECT_EQ(most, *std::max_element(all.begin(), all.end() - 1));
    least = 1e-3, most = 1e3;
    loops.charges(centre.data(), charge.data(), n, 0.5, 0.25, 3, all.data(), &least, &most);
    EXPECT_EQ(least, 1e-3) << "the old minimum counts as well";
    EXPECT_EQ(most, 1e3);
    return all;
  });
}

TEST(RowLoops, Floats) {
  expect_same_bits([](const RowLoops& loops, int64_t n, Random* random) {
    Doubles x = gaussians(random, n, 1e-30);
    std::vector<float> to(x.size(), 5), of_sizes = to;
    loops.floats(x.data(), n, 0.5, to.data());
    if (n > 2) x[1] = 0;
    const double least = loops.sizes(x.data(), n, 4, of_sizes.data());
    double due = HUGE_VAL;
    for (int64_t k = 0; k < n; ++k) {
      if (n <= 2 || k != 1) EXPECT_EQ(to[k], static_cast<float>(x[k] * 0.5));
      EXPECT_EQ(of_sizes[k], static_cast<float>(std::abs(x[k]) * 4));
      if (x[k] != 0) due = std::min(due, std::abs(x[k]) * 4);
    }
    EXPECT_EQ(least, due);
    EXPECT_EQ(to.back(), 5);
    EXPECT_EQ(of_sizes.back(), 5);
    Doubles all(to.begin(), to.end());
    all.insert(all.end(), of_sizes.begin(), of_sizes.end());
    return all;
  });
  const double zero[2] = {0, -0.0};
  float to[2];
  EXPECT_EQ(row_loops().sizes(zero, 2, 1, to), HUGE_VAL) << "nothing but 0";
}

}  // namespace
}  // namespace attnfuzz
