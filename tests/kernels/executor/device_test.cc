// Compares the model of an H200 (kernels/executor/arithmetic/device/) with results of an H200, and the
// executor's vector path with the model.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/primitives/math.h"
#include "kernels/executor/arithmetic/arithmetic.h"
#include "kernels/executor/arithmetic/mma.h"
#include "tests/kernels/executor/harness.h"

namespace simt::device {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kQuiet = std::numeric_limits<float>::quiet_NaN();

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

// The bits of c plus the sum of the products.
uint32_t sum(int least, std::vector<float> a, std::vector<float> b, float c) {
  a.resize(16), b.resize(16);
  uint32_t x[16], y[16];
  for (int i = 0; i < 16; ++i) x[i] = bits(a[i]), y[i] = bits(b[i]);
  return add_block(kHopperProducts, least, x, y, 1, bits(c), 16);
}
uint32_t of_f16(std::vector<float> a, std::vector<float> b, float c = 0) { return sum(-14, a, b, c); }
uint32_t of_bf16(std::vector<float> a, std::vector<float> b, float c = 0) { return sum(-126, a, b, c); }

// These are results of mma.sync on an H200; docs/results/bits.md has many more of both instructions.
TEST(DeviceProducts, KeepTwentyFiveBitsBelowTheLargestTerm) {
  EXPECT_EQ(of_f16({1, 0x1p-12f, 1}, {1, 0x1p-13f, -1}), bits(0x1p-25f));
  EXPECT_EQ(of_f16({1, 0x1p-13f, 1}, {1, 0x1p-13f, -1}), 0u);
  EXPECT_EQ(of_bf16({0x1p-30f, 0x1p-50f}, {1, 1}), bits(0x1p-30f + 0x1p-50f));
  EXPECT_EQ(of_f16({0x1p-24f, 0x1p-14f}, {0x1p15f, 0x1p-14f}), bits(0x1p-9f)) << "a subnormal counts as 2^-14";
}

TEST(DeviceProducts, AreCutOffAtEveryPosition) {
  EXPECT_EQ(of_f16({1, 1.5f}, {1, 0x1p-24f}), bits(1.0f));
  EXPECT_EQ(of_f16({-1, -1.5f}, {1, 0x1p-24f}), bits(-1.0f));
  EXPECT_EQ(of_f16({}, {}, 1 + 0x1p-23f), bits(1 + 0x1p-23f));
}

TEST(DeviceProducts, ZerosMoveNothingAndSumToPositiveZero) {
  EXPECT_EQ(of_bf16({0x1p-30f, 0x1p-50f, 0.0f, 0x1p127f}, {1, 1, 0x1p127f, -0.0f}), bits(0x1p-30f + 0x1p-50f));
  EXPECT_EQ(of_f16({1, 1}, {1, -1}, -0.0f), 0u);
  EXPECT_EQ(of_f16({-0.0f}, {1}, -0.0f), 0u);
}

TEST(DeviceProducts, KeepSubnormals) {
  EXPECT_EQ(of_bf16({0x1p-66f}, {0x1p-66f}), bits(0x1p-132f));
  EXPECT_EQ(of_bf16({0x1p-133f}, {1}), bits(0x1p-133f));
  EXPECT_EQ(of_f16({}, {}, -0x1p-149f), bits(-0x1p-149f));
  EXPECT_EQ(of_bf16({0x1p-100f}, {0x1p-100f}), 0u);
  EXPECT_EQ(of_bf16({-0x1p-80f}, {0x1p-75f}), 0u) << "a product that is too small gives no -0";
}

TEST(DeviceProducts, InfinitiesAndNaNs) {
  EXPECT_EQ(of_f16({kInf, 1}, {1, 1}), kInfinity);
  EXPECT_EQ(of_f16({kInf, 1}, {-1, 1}), kSign | kInfinity);
  EXPECT_EQ(of_f16({kInf}, {0}), kNaN);
  EXPECT_EQ(of_f16({kInf}, {1}, -kInf), kNaN);
  EXPECT_EQ(of_f16({1}, {1}, -kInf), kSign | kInfinity);
  EXPECT_EQ(of_f16({-kQuiet}, {1}), kNaN);
  EXPECT_EQ(of_f16({1}, {1}, -kQuiet), kNaN);
  EXPECT_EQ(of_bf16({0x1p127f, 0x1p127f}, {1, 1}), kInfinity);
  EXPECT_EQ(of_bf16({0x1p127f, 0x1p127f, 0x1p127f}, {1, 1, -1}), bits(0x1p127f)) << "only the sum may overflow";
}

// A hash of the function's results over [1, 2), of rsqrt over [1, 4).
uint64_t digest(uint32_t (*function)(const Functions&, uint32_t), uint32_t count) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < count; ++i) {
    h = (h ^ function(h200_functions(), 0x3F800000 + i)) * 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

TEST(DeviceFunctions, GiveTheResultsOfAnH200ForEveryFraction) {
  EXPECT_EQ(digest(ex2, 1 << 23), 0xB9B1558A91315631);
  EXPECT_EQ(digest(lg2, 1 << 23), 0x254807A22081C4EE);
  EXPECT_EQ(digest(rcp, 1 << 23), 0x932A769E95E94615);
  EXPECT_EQ(digest(rsqrt, 1 << 24), 0xE50D8C2ADF89999B);
}

TEST(DeviceFunctions, AtTheEdges) {
  const Functions& f = h200_functions();
  constexpr uint32_t kTiny = 0x00800000, kSubnormal = 0x007FFFFF;
  const auto both = [](uint32_t x) { return x | kSign; };
  EXPECT_EQ(ex2(f, 0), bits(1.0f));
  EXPECT_EQ(ex2(f, both(0)), bits(1.0f));
  EXPECT_EQ(ex2(f, bits(-1.0f)), bits(0.5f));
  EXPECT_EQ(ex2(f, bits(-126.0f)), kTiny);
  EXPECT_EQ(ex2(f, bits(-126.0f) + 1), 0u);
  EXPECT_EQ(ex2(f, bits(128.0f)), kInfinity);
  EXPECT_EQ(ex2(f, both(kInfinity)), 0u);
  EXPECT_EQ(lg2(f, bits(1.0f)), 0u);
  EXPECT_EQ(lg2(f, kSubnormal), both(kInfinity));
  EXPECT_EQ(lg2(f, both(0)), both(kInfinity));
  EXPECT_EQ(lg2(f, bits(-1.0f)), kNaN);
  EXPECT_EQ(lg2(f, kInfinity), kInfinity);
  EXPECT_EQ(rcp(f, both(kSubnormal)), both(kInfinity));
  EXPECT_EQ(rcp(f, both(kInfinity)), both(0));
  EXPECT_EQ(rcp(f, bits(-2.0f)), bits(-0.5f));
  EXPECT_EQ(rcp(f, bits(0x1p126f)), kTiny);
  EXPECT_EQ(rcp(f, bits(0x1p126f) + 1), 0u);
  EXPECT_EQ(rsqrt(f, both(0)), both(kInfinity));
  EXPECT_EQ(rsqrt(f, bits(-1.0f)), kNaN);
  EXPECT_EQ(rsqrt(f, bits(0.25f)), bits(2.0f));
  EXPECT_EQ(rsqrt(f, kInfinity), 0u);
  for (const auto function : {ex2, lg2, rcp, rsqrt}) EXPECT_EQ(function(f, 0xFFC00000), kNaN);
}

// Draws factors of a format: ordinary ones, or with all exponents, zeros and non-finite numbers.
struct Draw {
  std::mt19937 random{7};
  bool bf16;

  float factor(bool wild) {
    const uint32_t r = random();
    if (r % 7 == 0) return r & 8 ? 0.0f : -0.0f;
    if (wild && r % 61 == 0) return r & 8 ? kInf : r & 16 ? -kInf : kQuiet;
    const int reach = !wild ? 4 : bf16 ? 127 : 15;
    const float size = std::ldexp(1.0f + static_cast<float>(r >> 25) / 128,
                                  static_cast<int>(r >> 8 & 0xFFFF) % (2 * reach) - reach);
    return r & 8 ? size : -size;
  }
  float start(bool wild) {
    const uint32_t r = random();
    return wild && r % 5 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random())) : factor(wild);
  }
};

TEST(DeviceProducts, OfTheExecutorAreThoseOfTheModel) {
  arithmetic = device::model_of(ATTN_ARITHMETIC_H200);
  constexpr int kK = 48;
  for (int round = 0; round < 200; ++round) {
    Draw draw{.bf16 = round % 2 == 1};
    draw.random.seed(static_cast<uint32_t>(round));
    const bool wild = round % 4 >= 2, by_k = round % 8 >= 4;
    const int b_k = by_k ? 8 : 1, b_n = by_k ? 1 : kK;
    std::vector<float> a(16 * kK), b(8 * kK), c(128);
    for (float& x : a) x = draw.factor(wild && round % 3 == 0);
    for (float& x : b) x = draw.factor(wild && round % 3 == 1);
    for (float& x : c) x = draw.start(wild);
    std::vector<float> got = c;
    float* lanes[32];
    for (int lane = 0; lane < 32; ++lane) lanes[lane] = &got[static_cast<size_t>(4 * lane)];
    mma_columns(lanes, a.data(), b.data(), b_k, b_n, kK, draw.bf16 ? Format::kBF16 : Format::kF16, true);
    for (int i = 0; i < 128; ++i) {
      const int row = i / 16 + i / 2 % 2 * 8, column = i / 4 % 4 * 2 + i % 2;
      uint32_t expected = bits(c[static_cast<size_t>(i)]);
      for (int block = 0; block < kK; block += 16) {
        uint32_t x[16], y[16];
        for (int k = 0; k < 16; ++k) {
          x[k] = bits(a[static_cast<size_t>((block + k) * 16 + row)]);
          y[k] = bits(b[static_cast<size_t>((block + k) * b_k + column * b_n)]);
        }
        expected = add_block(kHopperProducts, draw.bf16 ? -126 : -14, x, y, 1, expected, 16);
      }
      ASSERT_EQ(bits(got[static_cast<size_t>(i)]), expected)
          << "round " << round << ", row " << row << ", column " << column;
    }
  }
  arithmetic = nullptr;
}

__global__ void ask_all(float x, float* answers) {
  answers[0] = attn::ex2(x);
  answers[1] = attn::lg2(x);
  answers[2] = attn::rcp(x);
  answers[3] = attn::rsqrt(x);
}

TEST(DeviceArithmetic, IsThatOfTheLaunch) {
  const Functions& f = h200_functions();
  constexpr float kX = 1.2345678f;
  float device[4], any[4];
  ASSERT_EQ(attn::run_on_cpu(ask_all, 1, 1, {.arithmetic = ATTN_ARITHMETIC_H200}, kX, device).told(), "ok");
  ASSERT_EQ(attn::run_on_cpu(ask_all, 1, 1, {}, kX, any).told(), "ok");
  const uint32_t expected[] = {ex2(f, bits(kX)), lg2(f, bits(kX)), rcp(f, bits(kX)), rsqrt(f, bits(kX))};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(bits(device[i]), expected[i]);
    EXPECT_NEAR(any[i], device[i], 1e-6);
  }
  EXPECT_NE(bits(any[0]), expected[0]) << "the two arithmetics must differ, or the test shows nothing";
}

TEST(DeviceArithmetic, IsRefusedIfUnknownOrIfTheCpuFlushes) {
  float answers[4];
  const attn::Outcome unknown = attn::run_on_cpu(ask_all, 1, 1, {.arithmetic = 77}, 1.0f, answers);
  EXPECT_EQ(unknown.status, ATTN_LAUNCH_FAILED);
  EXPECT_EQ(unknown.told(), "env.arithmetic is 77, which is not known");
  const unsigned usual = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(usual | 1 << 15);
  const attn::Outcome flushing =
      attn::run_on_cpu(ask_all, 1, 1, {.arithmetic = ATTN_ARITHMETIC_H200}, 1.0f, answers);
  const attn::Outcome any = attn::run_on_cpu(ask_all, 1, 1, {}, 1.0f, answers);
  __builtin_ia32_ldmxcsr(usual);
  EXPECT_EQ(flushing.status, ATTN_LAUNCH_FAILED);
  EXPECT_NE(flushing.told().find("flushes subnormals"), std::string::npos) << flushing.told();
  EXPECT_EQ(any.told(), "ok");
}

}  // namespace
}  // namespace simt::device
