// Tests products of rows with a block of keys.
#include "reference/rows/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "tests/reference/random.h"

namespace attnfuzz {
namespace {

// Sums are chains of fused multiply-adds in the order of t and of keys: the same bits from
// every level of x86-64 that this machine runs, in blocks of any height.
TEST(Products, HaveTheSameBitsAtEveryLevel) {
  constexpr int64_t kDim = 37, kPanels = 3, kKeys = kPanels * kLanes;
  Random random(11);
  const auto numbers = [&](int64_t count) {
    Buffer out(static_cast<size_t>(count));
    for (double& x : out) x = random.gaussian();
    return out;
  };
  Operands operands;
  operands.dim_qk = kDim;
  operands.keys = numbers(kKeys * kDim);
  const Buffer values = numbers(kKeys * kLanes), mean = numbers(kLanes);
  const std::vector<int64_t> panels = {0, 2};
  const std::vector<KeySpan> spans = {{3, 0, 20}, {40, 20, 7}};
  EXPECT_STREQ(product_levels().back().name, "as compiled");
#ifdef __x86_64__
  if (__builtin_cpu_supports("x86-64-v4")) EXPECT_STREQ(product_levels().front().name, "x86-64-v4");
#endif
  for (const ProductLevel& level : product_levels()) {
    for (size_t rows = 1; rows <= 13; ++rows) {
      std::vector<Buffer> q, size, dot(rows, Buffer(2 * kLanes)), absolute = dot, running = dot, weight, sum;
      std::vector<QueryRow> queries;
      for (size_t r = 0; r < rows; ++r) {
        size.push_back(q.emplace_back(numbers(kDim)));
        for (double& x : size.back()) x = std::abs(x);
        weight.push_back(numbers(27));
      }
      for (size_t r = 0; r < rows; ++r)
        queries.push_back({q[r].data(), size[r].data(), dot[r].data(), absolute[r].data(), running[r].data()});
      Buffer beyond(3 * 2 * kLanes, 5);
      queries.push_back({q[0].data(), size[0].data(), &beyond[0], &beyond[2 * kLanes], &beyond[4 * kLanes]});
      level.scores(operands, panels, std::span(queries).first(rows));
      ASSERT_EQ(std::count(beyond.begin(), beyond.end(), 5), std::ssize(beyond));
      for (size_t r = 0; r < rows; ++r)
        for (size_t at = 0; at < dot[r].size(); ++at) {
          const size_t panel = static_cast<size_t>(panels[at / kLanes]), lane = at % kLanes;
          double expected[3] = {};
          for (size_t t = 0; t < kDim; ++t) {
            const double key = operands.keys[(panel * kDim + t) * kLanes + lane];
            if (t % kDotBlock == 0) expected[2] += std::abs(expected[0]);
            expected[0] = std::fma(q[r][t], key, expected[0]);
            expected[1] = std::fma(std::abs(q[r][t]), std::abs(key), expected[1]);
          }
          ASSERT_EQ(dot[r][at], expected[0]) << level.name << " rows " << rows;
          ASSERT_EQ(absolute[r][at], expected[1]) << level.name << " rows " << rows;
          ASSERT_EQ(running[r][at], expected[2]) << level.name << " rows " << rows;
        }
      for (const Term term : {Term::kValue, Term::kSize, Term::kDistance}) {
        sum.assign(rows, mean);
        std::vector<WeightedRow> weighted;
        for (size_t r = 0; r < rows; ++r) weighted.push_back({weight[r].data(), sum[r].data(), mean.data()});
        // A row behind the last must not be written.
        Buffer beyond = mean;
        weighted.push_back({weight[0].data(), beyond.data(), mean.data()});
        level.weigh[static_cast<size_t>(term)](values.data(), spans, std::span(weighted).first(rows));
        ASSERT_EQ(beyond, mean);
        for (size_t r = 0; r < rows; ++r)
          for (size_t lane = 0; lane < kLanes; ++lane) {
            double expected = mean[lane];
            for (const KeySpan& span : spans)
              for (int64_t k = 0; k < span.count; ++k) {
                const double v = values[static_cast<size_t>(span.key + k) * kLanes + lane];
                const double of = term == Term::kValue  ? v
                                  : term == Term::kSize ? std::abs(v)
                                                        : std::abs(v - mean[lane]);
                expected = std::fma(weight[r][static_cast<size_t>(span.position + k)], of, expected);
              }
            ASSERT_EQ(sum[r][lane], expected) << level.name << " rows " << rows;
          }
      }
    }
  }
}

// Sums of sizes in fp32 are never below the exact sum, and above it at most by kSizesApart. Every level has the
// same bits.
TEST(Products, OfSizesAreNoLessThanTheirSum) {
  constexpr size_t kKeys = 150;
  Random random(5);
  const auto sizes = [&](size_t count) {
    std::vector<float, Eigen::aligned_allocator<float>> out(count);
    for (float& x : out) x = static_cast<float>(std::exp2(8 * random.gaussian()));
    return out;
  };
  const auto panel = sizes(kKeys * kLanes);
  const std::vector<KeySpan> spans = {{3, 0, 70}, {80, 70, 33}, {149, 103, 1}};
  for (size_t rows = 1; rows <= 14; ++rows) {
    std::vector<std::vector<float, Eigen::aligned_allocator<float>>> weight;
    for (size_t r = 0; r < rows; ++r) weight.push_back(sizes(104));
    std::vector<Buffer> first;
    for (const ProductLevel& level : product_levels()) {
      std::vector<Buffer> sum(rows + 1, Buffer(kLanes, 0.5));
      std::vector<SizedRow> sized;
      for (size_t r = 0; r <= rows; ++r) sized.push_back({weight[r % rows].data(), sum[r].data()});
      level.weigh_sizes(panel.data(), spans, std::span(sized).first(rows));
      ASSERT_EQ(sum[rows], Buffer(kLanes, 0.5)) << "a row behind the last";
      for (size_t r = 0; r < rows; ++r)
        for (size_t lane = 0; lane < kLanes; ++lane) {
          double due = 0;
          for (const KeySpan& span : spans)
            for (int64_t k = 0; k < span.count; ++k)
              due += static_cast<double>(weight[r][static_cast<size_t>(span.position + k)]) *
                     panel[static_cast<size_t>(span.key + k) * kLanes + lane];
          // The weights were rounded before, and the sum began at 0.5.
          ASSERT_GE(sum[r][lane] - 0.5, due * (1 + 0x1p-24));
          ASSERT_LE(sum[r][lane] - 0.5, due * (1 + kSizesApart));
        }
      if (first.empty()) first = sum;
      ASSERT_EQ(sum, first) << level.name;
    }
  }
}

TEST(Products, EndOfATile) {
  for (const ProductLevel& level : product_levels())
    for (const bool last : {false, true}) {
      std::vector<KnownSums> sums(3);
      for (size_t r = 0; r < 3; ++r) {
        const double x = static_cast<double>(r + 1);
        sums[r].tile = 2 * x, sums[r].prefix = -3 * x, sums[r].mean = 5, sums[r].exact = 7,
        sums[r].charged = 11;
        sums[r].running = 13, sums[r].prefix[15] = 0;
      }
      const double costs[] = {0.5, 0, 0.25};
      level.end_tiles(std::span(sums).first(2), costs, last);
      for (size_t r = 0; r < 2; ++r) {
        const double x = static_cast<double>(r + 1);
        EXPECT_EQ(sums[r].running[0], 13 + costs[r] * 3 * x);
        EXPECT_EQ(sums[r].running[15], 13);
        EXPECT_EQ(sums[r].tile[4], 0);
        EXPECT_EQ(sums[r].prefix[4], last ? 0 : -x);
        EXPECT_EQ(sums[r].mean[4], last ? 5 - x : 5);
        EXPECT_EQ(sums[r].exact[4], 7);
        EXPECT_EQ(sums[r].charged[4], 11);
      }
      EXPECT_EQ(sums[2].tile[0], 6) << "a row behind the last";
    }
}

}  // namespace
}  // namespace attnfuzz
