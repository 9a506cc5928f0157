// Tests that elementary functions have the errors that math.h states, and their edge cases.
#include "kernels/primitives/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace attn {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::min();

// The worst relative error over every `stride`-th float with a normal result. The reference
// in double is slow, so all floats are only run on request (about 20 s).
double worst_error_of_ex2(uint32_t stride) {
  double worst = 0;
  const auto visit = [&](float x) {
    const double exact = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(ex2(x)) - exact) / exact);
  };
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(128.0f); bits += stride)
    visit(std::bit_cast<float>(bits));
  for (uint32_t bits = 0; bits <= std::bit_cast<uint32_t>(126.0f); bits += stride)
    visit(-std::bit_cast<float>(bits));
  return worst;
}

TEST(Math, Ex2HasARelativeErrorBelow2ToTheMinus22) {
  const double worst = worst_error_of_ex2(211);
  RecordProperty("log2_of_worst_error", std::to_string(std::log2(worst)));
  EXPECT_LT(worst, 0x1p-22);
}

TEST(Math, DISABLED_Ex2OverAllFloats) {
  const double worst = worst_error_of_ex2(1);
  printf("worst relative error of ex2: 2^%.3f\n", std::log2(worst));
  EXPECT_LT(worst, 0x1p-22);
}

TEST(Math, RsqrtAtTheEdges) {
  EXPECT_EQ(rsqrt(4.0f), 0.5f);
  EXPECT_EQ(rsqrt(0.0f), inf());
  EXPECT_EQ(rsqrt(-0.0f), -inf());
  EXPECT_EQ(rsqrt(kTiny / 2), inf());
  EXPECT_EQ(rsqrt(inf()), 0.0f);
  EXPECT_TRUE(std::isnan(rsqrt(-1.0f)));
  EXPECT_TRUE(std::isnan(rsqrt(kNaN)));
}

TEST(Math, Ex2AtTheEdges) {
  EXPECT_EQ(std::bit_cast<uint32_t>(ex2(-inf())), 0u);
  EXPECT_EQ(ex2(inf()), inf());
  EXPECT_TRUE(std::isnan(ex2(kNaN)));
  EXPECT_TRUE(std::isnan(ex2(-kNaN)));
  EXPECT_EQ(ex2(0.0f), 1.0f);
  EXPECT_EQ(ex2(-0.0f), 1.0f);
  EXPECT_EQ(ex2(128.0f), inf());
  EXPECT_EQ(ex2(1e30f), inf());
  EXPECT_LT(ex2(std::nextafterf(128.0f, 0.0f)), inf());
  EXPECT_EQ(ex2(-126.0f), kTiny);
  EXPECT_EQ(std::bit_cast<uint32_t>(ex2(std::nextafterf(-126.0f, -200.0f))), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(ex2(-1e30f)), 0u);
  for (int n = -126; n < 128; ++n) EXPECT_EQ(ex2(static_cast<float>(n)), std::ldexp(1.0f, n));
}

TEST(Math, Lg2AndRcpFlushSubnormals) {
  EXPECT_EQ(lg2(0.0f), neg_inf());
  EXPECT_EQ(lg2(kTiny / 2), neg_inf());
  EXPECT_EQ(lg2(8.0f), 3.0f);
  EXPECT_EQ(lg2(kTiny), -126.0f);
  EXPECT_TRUE(std::isnan(lg2(-1.0f)));
  EXPECT_TRUE(std::isnan(lg2(kNaN)));
  EXPECT_EQ(lg2(inf()), inf());

  EXPECT_EQ(rcp(4.0f), 0.25f);
  EXPECT_EQ(rcp(0.0f), inf());
  EXPECT_EQ(rcp(-0.0f), neg_inf());
  EXPECT_EQ(rcp(-kTiny / 2), neg_inf());
  EXPECT_EQ(rcp(0x1p127f), 0.0f);
  EXPECT_EQ(rcp(0x1p126f), kTiny);
  EXPECT_TRUE(std::isnan(rcp(kNaN)));
}

TEST(Math, FmaxDropsNaN) {
  EXPECT_EQ(fmax(1.0f, 2.0f), 2.0f);
  EXPECT_EQ(fmax(2.0f, 1.0f), 2.0f);
  EXPECT_EQ(fmax(kNaN, -3.0f), -3.0f);
  EXPECT_EQ(fmax(-3.0f, kNaN), -3.0f);
  EXPECT_TRUE(std::isnan(fmax(kNaN, kNaN)));
  EXPECT_EQ(fmax(neg_inf(), -1.0f), -1.0f);
  EXPECT_EQ(fmax(kNaN, neg_inf()), neg_inf());
}

TEST(Math, FmaRoundsOnce) { EXPECT_EQ(fma(1 + 0x1p-23f, 1 - 0x1p-23f, -1.0f), -0x1p-46f); }

double worst_error_of_tanh(uint32_t stride) {
  double worst = 0;
  for (uint32_t bits = 1; bits < std::bit_cast<uint32_t>(12.0f); bits += stride) {
    const float x = std::bit_cast<float>(bits);
    const double exact = std::tanh(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(tanh(x)) - exact) / exact);
  }
  return worst;
}

TEST(Math, TanhHasARelativeErrorBelow2ToTheMinus22) {
  const double worst = worst_error_of_tanh(211);
  RecordProperty("log2_of_worst_error", std::to_string(std::log2(worst)));
  EXPECT_LT(worst, 0x1p-22);
}

TEST(Math, TanhAtTheEdges) {
  EXPECT_EQ(tanh(inf()), 1.0f);
  EXPECT_EQ(tanh(neg_inf()), -1.0f);
  EXPECT_EQ(tanh(1e30f), 1.0f);
  EXPECT_EQ(tanh(-100.0f), -1.0f);
  EXPECT_EQ(std::bit_cast<uint32_t>(tanh(0.0f)), 0u);
  EXPECT_EQ(std::bit_cast<uint32_t>(tanh(-0.0f)), 0x80000000u);
  EXPECT_EQ(tanh(kTiny / 2), kTiny / 2);
  EXPECT_EQ(tanh(-kTiny), -kTiny);
  EXPECT_EQ(tanh(-0.7f), -tanh(0.7f));
  EXPECT_TRUE(std::isnan(tanh(kNaN)));
}

}  // namespace
}  // namespace attn
