// Compares conversions of 16-bit floats with Eigen's.
#include "kernels/primitives/types.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>

namespace attn {
namespace {

uint16_t eigen_bits(F16, float value) { return Eigen::half_impl::float_to_half_rtne(value).x; }
uint16_t eigen_bits(BF16, float value) {
  return Eigen::bfloat16_impl::float_to_bfloat16_rtne<false>(value).value;
}

float eigen_float(F16 value) {
  return static_cast<float>(Eigen::half(Eigen::half_impl::raw_uint16_to_half(value.bits)));
}
float eigen_float(BF16 value) {
  return static_cast<float>(Eigen::bfloat16(Eigen::bfloat16_impl::raw_uint16_to_bfloat16(value.bits)));
}

template <class T>
class Types : public testing::Test {};
using Formats = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(Types, Formats);

TYPED_TEST(Types, EveryPatternWidensAsEigenDoesAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam value{static_cast<uint16_t>(bits)};
    const float wide = to_float(value), expected = eigen_float(value);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(to_float(from_float<TypeParam>(wide)))) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(expected)) << bits;
      ASSERT_EQ(from_float<TypeParam>(wide).bits, bits);
    }
  }
}

// A stride prime to 2^32 visits floats of every exponent, some 4 million.
TYPED_TEST(Types, FloatsRoundAsEigenDoes) {
  uint32_t bits = 0;
  do {
    const float value = std::bit_cast<float>(bits);
    const TypeParam rounded = from_float<TypeParam>(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(to_float(rounded))) << bits;
    } else {
      ASSERT_EQ(rounded.bits, eigen_bits(TypeParam{}, value)) << bits;
    }
    bits += 1021;
  } while (bits >= 1021);
}

// Halfway between each pattern and the next, and one step to either side.
TYPED_TEST(Types, TiesGoToEven) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const float low = to_float(TypeParam{static_cast<uint16_t>(bits)});
    const float high = to_float(TypeParam{static_cast<uint16_t>(bits + 1)});
    if (!std::isfinite(high)) continue;
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(from_float<TypeParam>(middle).bits, bits % 2 ? bits + 1 : bits);
    ASSERT_EQ(from_float<TypeParam>(std::nextafterf(middle, low)).bits, bits);
    ASSERT_EQ(from_float<TypeParam>(std::nextafterf(middle, high)).bits, bits + 1);
  }
}

TYPED_TEST(Types, PairsPackLowHalfFirst) {
  const uint32_t word = pack2<TypeParam>(1.0f, -2.5f);
  EXPECT_EQ(word & 0xFFFF, from_float<TypeParam>(1.0f).bits);
  float low, high;
  unpack2<TypeParam>(word, low, high);
  EXPECT_EQ(low, 1.0f);
  EXPECT_EQ(high, -2.5f);
}

TYPED_TEST(Types, PairsOfMinima) {
  constexpr float kNan = NAN, kInf = INFINITY;
  const auto least = [](float lo_a, float hi_a, float lo_b, float hi_b) {
    float lo, hi;
    unpack2<TypeParam>(min2<TypeParam>(pack2<TypeParam>(lo_a, hi_a), pack2<TypeParam>(lo_b, hi_b)), lo, hi);
    return std::pair(lo, hi);
  };
  EXPECT_EQ(least(1, -2, 0.5f, 3), std::pair(0.5f, -2.0f));
  EXPECT_EQ(least(-kInf, kInf, 7, kInf), std::pair(-kInf, kInf));
  EXPECT_EQ(least(kNan, 4, -1, kNan), std::pair(-1.0f, 4.0f));
}

}  // namespace
}  // namespace attn
