// Tests fills and patterns. Version 1 must never change, and must be the same on every machine.
#include "properties/data/fills.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "properties/data/bits16.h"
#include "reference/numbers/formats.h"
#include "tests/properties/data/drawn_values.h"

uint64_t contracted_hash_of_values(uint64_t seed);  // contracted_values.cc

namespace attnfuzz {
namespace {

uint64_t hash_of(FillKind kind, int32_t dtype, int exponent) {
  Fill fill;
  fill.kind = kind;
  fill.exponent = exponent;
  fill.seed = 7;
  uint64_t hash = 0;
  for (int64_t s = 0; s < 40; ++s) {
    for (int64_t d = 0; d < 20; ++d) hash = mix(hash, fill_bits(fill, dtype, 1, 2, s, d, 20), 0, 0, 0);
  }
  return hash;
}

// scaled_bits() rounds as to_bits() does: normal and subnormal results, ties, overflow.
TEST(Fills, ScaledIntegersRoundAsDoublesDo) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16})
    for (int exponent = -640; exponent <= 640; ++exponent) {
      uint64_t key = 0;
      for (int bit = 0; bit < 24; ++bit)
        for (const int32_t lower : {-3, -2, -1, 0, 1, 2, 3, static_cast<int32_t>(hash64(++key) >> 40)}) {
          const int32_t integer = std::clamp((1 << bit) + lower % (1 << bit), 0, 0xffffff);
          for (const int32_t x : {integer, -integer}) {
            if (x == 0) continue;  // to_bits(-0.0) does not arise
            ASSERT_EQ(scaled_bits(dtype, x, exponent), to_bits(dtype, x * exp2_exact(exponent)))
                << x << " * 2^" << exponent;
          }
        }
    }
  EXPECT_EQ(scaled_bits(ATTN_F16, 0, 3), 0);
}

// Exponents from those where all values are 0, through the subnormals of each format and
// of float, to those where all values are the largest number.
TEST(Fills, RowsAreElements) {
  for (int kind = 0; kind < kFillKinds; ++kind) {
    for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      for (int exponent : {-256, -150, -133, -118, -102, -24, -10, -2, 0, 3, 16, 60, 101, 127, 256}) {
        const Fill fill = {.kind = static_cast<FillKind>(kind), .exponent = exponent, .seed = 3};
        std::vector<uint16_t> row(37);
        fill_row(fill, dtype, 1, 2, 5, 37, row.data());
        for (int64_t d = 0; d < 37; ++d) {
          ASSERT_EQ(row[d], fill_bits(fill, dtype, 1, 2, 5, d, 37))
              << "kind " << kind << ", exponent " << exponent << ", d " << d;
        }
      }
    }
  }
}

TEST(Fills, RowsOf8BitsAreElements) {
  for (int kind = 0; kind < kFillKinds; ++kind) {
    for (int32_t dtype : {ATTN_E4M3, ATTN_E5M2}) {
      for (int exponent : {-256, -150, -24, -10, -2, 0, 3, 16, 60, 256}) {
        const Fill fill = {.kind = static_cast<FillKind>(kind), .exponent = exponent, .seed = 3};
        std::vector<uint8_t> row(37);
        fill_row(fill, dtype, 1, 2, 5, 37, row.data());
        for (int64_t d = 0; d < 37; ++d) {
          ASSERT_EQ(row[d], fill_bits8(fill, dtype, 1, 2, 5, d, 37))
              << "kind " << kind << ", exponent " << exponent << ", d " << d;
        }
      }
    }
  }
}

TEST(Fills, RowsOfFp32AreElements) {
  for (int kind = 0; kind < kFillKinds; ++kind) {
    for (int exponent : {-256, -150, -133, -118, -102, -24, -10, -2, 0, 3, 16, 60, 101, 127, 256}) {
      const Fill fill = {.kind = static_cast<FillKind>(kind), .exponent = exponent, .seed = 3};
      std::vector<uint32_t> row(37);
      fill_row(fill, ATTN_F32, 1, 2, 5, 37, row.data());
      for (int64_t d = 0; d < 37; ++d) {
        ASSERT_EQ(row[d], fill_bits32(fill, 1, 2, 5, d, 37))
            << "kind " << kind << ", exponent " << exponent << ", d " << d;
        ASSERT_TRUE(std::isfinite(std::bit_cast<float>(row[d])));
      }
    }
  }
}

// fp32 fills have mantissa bits that bf16 and TF32 lack, and the same kinds of numbers.
TEST(Fills, OfFp32HaveItsBits) {
  using enum FillKind;
  for (const FillKind kind : {kPosition, kSameRows, kUniform, kNegative, kGaussian, kBlocks, kHuge}) {
    int fine = 0;
    double most = 0, sum = 0;
    for (int64_t d = 0; d < 1000; ++d) {
      const uint32_t bits = fill_bits32({.kind = kind, .seed = 5}, 0, 0, d / 50, d, 1000);
      fine += (bits & 0x1fff) != 0;
      most = std::max(most, std::fabs(static_cast<double>(std::bit_cast<float>(bits))));
      sum += static_cast<double>(std::bit_cast<float>(bits));
    }
    EXPECT_GT(fine, 950) << "kind " << static_cast<int>(kind);
    if (kind == kUniform) EXPECT_NEAR(sum / 1000, 0.5, 0.05);
    if (kind == kNegative) EXPECT_NEAR(sum / 1000, -0.5, 0.05);
    if (kind == kGaussian) EXPECT_NEAR(sum / 1000, 0, 0.2);
    if (kind == kUniform || kind == kNegative) EXPECT_LT(most, 1);
    if (kind == kGaussian) EXPECT_TRUE(most > 2 && most < 8) << most;
    if (kind == kHuge) EXPECT_TRUE(most > 0x1p59 && most <= 0x1p60) << most;
  }
  std::set<uint32_t> positions;
  for (int64_t s = 0; s < 1000; ++s) {
    for (int64_t d = 0; d < 64; ++d) positions.insert(fill_bits32({.kind = kPosition}, 0, 0, s, d, 64));
  }
  EXPECT_EQ(positions.size(), 64000u);
  for (int64_t d = 0; d < 100; ++d) {
    const float least = std::bit_cast<float>(fill_bits32({.kind = kSubnormal, .seed = 1}, 0, 0, 0, d, 100));
    EXPECT_EQ(std::fpclassify(least), FP_SUBNORMAL);
  }
  EXPECT_EQ(fill_bits32({.kind = kConstant, .exponent = 200}, 0, 0, 0, 0, 1), 0x7f7fffffu);
}

TEST(Fills, ToFp32IsToNearestEven) {
  for (uint32_t n = 0; n < 1 << 20; ++n) {
    const double value = std::bit_cast<double>(0x3600000000000000 + n * uint64_t{0x1234567890b});
    const auto nearest = static_cast<float>(value);
    if (!std::isfinite(nearest)) continue;
    ASSERT_EQ(to_bits32(value), std::bit_cast<uint32_t>(nearest)) << value;
    ASSERT_EQ(to_bits32(-value), std::bit_cast<uint32_t>(-nearest)) << value;
  }
}

// Three conversions agree: by integers, by the compiler, and by Eigen.
TEST(Fills, RoundToNearestEven) {
  for (uint32_t n = 0; n < 1 << 20; ++n) {
    const float value = std::bit_cast<float>(n * 4097);  // every exponent, and some ties
    if (!std::isfinite(value)) continue;
    for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      const uint16_t bits = to_bits(dtype, value);
      ASSERT_EQ(bits, from_float(dtype, value)) << value;
      const uint16_t unsaturated = encode16(dtype, value);
      if (std::isfinite(to_float(dtype, unsaturated))) ASSERT_EQ(bits, unsaturated) << value;
      ASSERT_TRUE(std::isfinite(to_float(dtype, bits))) << value;
    }
  }
  // Every 16-bit number, and the middles between neighbours.
  for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    for (uint32_t bits = 0; bits < format16(dtype).largest; ++bits) {
      const double low = to_float(dtype, static_cast<uint16_t>(bits));
      const double high = to_float(dtype, static_cast<uint16_t>(bits + 1));
      ASSERT_EQ(to_bits(dtype, low), bits);
      ASSERT_EQ(to_bits(dtype, (low + high) / 2), bits + (bits & 1));
      ASSERT_EQ(to_bits(dtype, -std::nextafter((low + high) / 2, low)), bits | 0x8000);
      ASSERT_EQ(to_bits(dtype, std::nextafter((low + high) / 2, high)), bits + 1);
    }
  }
}

TEST(Fills, HaveTheNumbersOfTheirKind) {
  const auto value = [](FillKind kind, int64_t s, int64_t d) {
    Fill fill;
    fill.kind = kind;
    fill.seed = 1;
    return to_float(ATTN_F16, fill_bits(fill, ATTN_F16, 0, 0, s, d, 64));
  };
  double sum = 0, squares = 0;
  for (int64_t s = 0; s < 200; ++s) {
    for (int64_t d = 0; d < 64; ++d) {
      EXPECT_EQ(value(FillKind::kZero, s, d), 0);
      EXPECT_EQ(value(FillKind::kConstant, s, d), 1);
      EXPECT_EQ(value(FillKind::kOneHot, s, d), d == s % 64 ? 1 : 0);
      EXPECT_EQ(value(FillKind::kSameRows, s, d), value(FillKind::kSameRows, 0, d));
      EXPECT_GE(value(FillKind::kUniform, s, d), 0);
      EXPECT_LT(value(FillKind::kUniform, s, d), 1);
      EXPECT_LE(value(FillKind::kNegative, s, d), 0);
      EXPECT_GT(value(FillKind::kNegative, s, d), -1);
      EXPECT_EQ(value(FillKind::kSignedZero, s, d), 0);
      EXPECT_NE(value(FillKind::kSubnormal, s, d), 0);
      EXPECT_LT(std::fabs(value(FillKind::kSubnormal, s, d)), 0x1p-14f);
      EXPECT_GE(std::fabs(value(FillKind::kHuge, s, d)), 65504 / 8);
      EXPECT_LE(std::fabs(value(FillKind::kHuge, s, d)), 65504);
      const float small = value(FillKind::kSmallInt, s, d);
      EXPECT_TRUE(small == -2 || small == -1 || small == 0 || small == 1 || small == 2);
      const float gaussian = value(FillKind::kGaussian, s, d);
      sum += gaussian;
      squares += gaussian * gaussian;
    }
  }
  EXPECT_NEAR(sum / 12800, 0, 0.03);
  EXPECT_NEAR(squares / 12800, 1, 0.05);
}

TEST(Fills, OfIntervalsHoldAColumnOrARowForEach) {
  const Fill weights = {.kind = FillKind::kIntervals, .seed = 16},
             levels = {.kind = FillKind::kLevels, .seed = 16};
  constexpr int64_t kColumns = 3;
  for (int64_t s = 0; s < 64; ++s) {
    for (int64_t d = 0; d < kColumns; ++d) {
      EXPECT_EQ(to_float(ATTN_F16, fill_bits(weights, ATTN_F16, 1, 2, s, d, kColumns)), s / 16 % 3 == d) << s;
      const auto level = [&](int64_t row) { return fill_bits(levels, ATTN_BF16, 1, 2, row, d, kColumns); };
      EXPECT_EQ(level(s), level(s / 16 * 16));
      if (s >= 16) EXPECT_NE(level(s), level(s - 16));
    }
  }
}

TEST(Fills, PositionsAreDistinct) {
  Fill fill;
  fill.kind = FillKind::kPosition;
  std::set<uint16_t> seen;
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t s = 0; s < 65; ++s) {
      for (int64_t d = 0; d < 64; ++d) seen.insert(fill_bits(fill, ATTN_F16, 0, h, s, d, 64));
    }
  }
  EXPECT_EQ(seen.size(), 2u * 65 * 64);
}

TEST(Fills, VersionOneNeverChanges) {
  std::string got;
  for (int kind = 0; kind < kFillKinds; ++kind) {
    for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      char text[24];
      std::snprintf(text, sizeof text, "%016llx\n",
                    static_cast<unsigned long long>(hash_of(static_cast<FillKind>(kind), dtype, kind % 3 - 1)));
      got += text;
    }
  }
  EXPECT_EQ(got, R"(c8f90bd699079ea1
c8f90bd699079ea1
1fd17ad8796ced73
42c1c7c01752cc94
fd8752d540de4f93
fd8752d540de4f93
ef7a3cc0fbfbf230
3a0238a320b102c3
69e435161cc8d7f2
6deb2927e615d414
c926a68129a3a84c
c3b5645c5d726d10
dd2acfd7a3ccdb62
dd2acfd7a3ccdb62
c79a14c61f0f90c1
df103c211a5c6e88
aa95dcc8dd1be75f
de11e0d10cedb1b9
59e61485150736a4
d94f7f83faf31f69
2260049a78ac5ee7
f573605b710473ca
1262e207b4865106
c98d40f0fa15dcba
81ed1ae1835b115c
10d0ed6fc4a78b0b
6a771b598ffa5d05
a3eb77531b0658b8
c3cc31cb70225dd4
6de6019a64f841c1
)");
}

TEST(Fills, SaturateAtTheLargestNumber) {
  const Fill fill = {.kind = FillKind::kConstant, .exponent = 200};
  EXPECT_EQ(fill_bits(fill, ATTN_F16, 0, 0, 0, 0, 1), 0x7bff);
  EXPECT_EQ(fill_bits(fill, ATTN_BF16, 0, 0, 0, 0, 1), 0x7f7f);
}

// A picture of 8 queries by 8 keys. The meaning of a pattern must never change.
std::string picture(const Pattern& pattern) {
  std::string text;
  uint8_t row[8];
  for (int64_t i = 0; i < 8; ++i) {
    visible_row(pattern, 1, 2, i, 8, 8, row);
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_EQ(row[j] != 0, visible(pattern, 1, 2, i, j, 8, 8));
      text += row[j] ? '#' : '.';
    }
    text += i % 4 == 3 ? '\n' : ' ';
  }
  return text;
}

TEST(Patterns, LookAsTheyShould) {
  EXPECT_EQ(picture({PatternKind::kAll}),
            "######## ######## ######## ########\n######## ######## ######## ########\n");
  EXPECT_EQ(picture({PatternKind::kNothing}),
            "........ ........ ........ ........\n........ ........ ........ ........\n");
  EXPECT_EQ(picture({PatternKind::kFirstKey}),
            "#....... #....... #....... #.......\n#....... #....... #....... #.......\n");
  EXPECT_EQ(picture({PatternKind::kLastKey}),
            ".......# .......# .......# .......#\n.......# .......# .......# .......#\n");
  EXPECT_EQ(picture({PatternKind::kPrefix, 3}),
            "###..... ###..... ###..... ####....\n#####... ######.. #######. ########\n");
  EXPECT_EQ(picture({PatternKind::kDocuments, 3}),
            "###..... ###..... ###..... ...###..\n...###.. ...###.. ......## ......##\n");
  EXPECT_EQ(picture({PatternKind::kDeadRows, 3}),
            "######## ######## ........ ########\n######## ........ ######## ########\n");
  EXPECT_EQ(picture({PatternKind::kStripes, 3}),
            ".##.##.# .##.##.# .##.##.# .##.##.#\n.##.##.# .##.##.# .##.##.# .##.##.#\n");
  EXPECT_EQ(picture({PatternKind::kDeadTiles, 4, 7}),
            "........ ####.... ####.... ########\n####.... ######## ####.... ####....\n");
  EXPECT_EQ(picture({PatternKind::kRandom, 8, 7}),
            "##.#..#. #.##.### #.#####. ###.####\n.######. #..#.... ..#...## #.#..#..\n");
  EXPECT_EQ(picture({PatternKind::kTree, 1}),
            "#....... ##...... ###..... ####....\n#####... ######.. #######. ########\n");
  EXPECT_EQ(picture({PatternKind::kTree, 3, 7}),
            "#....... ##...... #.#..... ##.#....\n#.#.#... ##.#.#.. ##.#..#. ##.#..##\n");
  EXPECT_EQ(picture({PatternKind::kSinkWindow, 2, 3}),
            "#....... ##...... ###..... ####....\n#####... ###.##.. ###..##. ###...##\n");
}

// The queries are at the last keys, and all of them see the keys before.
TEST(Patterns, TreesAndWindowsEndAtTheLastKey) {
  const auto row = [](const Pattern& pattern, int64_t i) {
    std::string text;
    for (int64_t j = 0; j < 8; ++j) text += visible(pattern, 0, 0, i, j, 3, 8) ? '#' : '.';
    return text;
  };
  EXPECT_EQ(row({PatternKind::kTree, 1}, 1), "#######.");
  EXPECT_EQ(row({PatternKind::kSinkWindow, 2, 1}, 0), "#...##..");
  EXPECT_EQ(row({PatternKind::kSinkWindow, 2, 0}, 2), "......##");
}

TEST(Patterns, TreesHideKeysBelowTheDiagonal) {
  const Pattern tree = {PatternKind::kTree, 4, 3};
  int hidden = 0;
  for (int64_t i = 0; i < 130; ++i) {
    EXPECT_TRUE(visible(tree, 0, 0, i, i, 130, 130));
    for (int64_t j = 0; j < i; ++j) {
      hidden += !visible(tree, 0, 0, i, j, 130, 130);
      // An ancestor of an ancestor is an ancestor.
      for (int64_t a = 0; a < j && visible(tree, 0, 0, i, j, 130, 130); ++a)
        EXPECT_LE(visible(tree, 0, 0, j, a, 130, 130), visible(tree, 0, 0, i, a, 130, 130));
    }
  }
  EXPECT_GT(hidden, 1000);
}

TEST(Patterns, BlocksAreSeenOrHiddenWhole) {
  for (int64_t parameter = 1; parameter <= 16; ++parameter) {
    const Pattern blocks = {PatternKind::kBlockwise, parameter, 5};
    for (int64_t i = 0; i < 256; i += 5) {
      for (int64_t j = 0; j < 256; ++j) {
        const int64_t q = block_queries(blocks), k = block_keys(blocks);
        EXPECT_EQ(visible(blocks, 0, 0, i, j, 256, 256), visible(blocks, 0, 0, i / q * q, j / k * k, 256, 256));
      }
    }
  }
}

TEST(Patterns, RandomHidesAsOftenAsItSays) {
  for (int64_t parameter : {1, 8, 15, 16}) {
    int hidden = 0;
    for (int64_t j = 0; j < 16000; ++j)
      hidden += !visible(Pattern{PatternKind::kRandom, parameter, 1}, 0, 0, 3, j, 4, 16000);
    EXPECT_NEAR(hidden, 1000 * static_cast<double>(parameter), 250) << parameter;
  }
}

TEST(Patterns, BroadcastReadsIndexZero) {
  const Mask mask = {{PatternKind::kDocuments, 2}, {.query = true}};
  EXPECT_TRUE(visible(mask, 0, 0, 5, 1, 8, 8));
  EXPECT_FALSE(visible(mask, 0, 0, 5, 4, 8, 8));
}

TEST(Biases, HaveTheNumbersOfTheirKind) {
  const float infinity = std::numeric_limits<float>::infinity();
  Bias bias = {ATTN_F32, BiasKind::kAlibi, {PatternKind::kStripes, 4}, {}, 0};
  EXPECT_EQ(bias_value(bias, 0, 2, 3, 5, 8, 8), -2 / 8.0f);
  EXPECT_EQ(bias_value(bias, 0, 9, 6, 5, 8, 8), -1 / 4.0f);
  EXPECT_EQ(bias_value(bias, 0, 0, 0, 4, 8, 8), -infinity);
  bias.kind = BiasKind::kRowConstant;
  EXPECT_EQ(bias_value(bias, 1, 2, 3, 5, 8, 8), bias_value(bias, 1, 2, 3, 6, 8, 8));
  EXPECT_NE(bias_value(bias, 1, 2, 3, 5, 8, 8), bias_value(bias, 1, 2, 4, 5, 8, 8));
  bias.broadcast.query = true;
  EXPECT_EQ(bias_value(bias, 1, 2, 3, 5, 8, 8), bias_value(bias, 1, 2, 4, 5, 8, 8));
  // Very negative but finite, and exact in the bias's format.
  bias = Bias{};
  bias.kind = BiasKind::kVeryNegative;
  for (int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    bias.dtype = dtype;
    std::set<float> values;
    for (int64_t i = 0; i < 50; ++i) values.insert(bias_value(bias, 0, 0, i, 0, 50, 1));
    EXPECT_EQ(values.size(), 3u);
    for (float value : values) {
      EXPECT_TRUE(std::isfinite(value));
      EXPECT_LT(value, -9000);
      if (dtype != ATTN_F32) EXPECT_EQ(to_float(dtype, from_float(dtype, value)), value);
    }
  }
  // Below the numbers that kernels use for -inf, if the format holds them.
  bias.kind = BiasKind::kFarBelow;
  bias.dtype = ATTN_BF16;
  std::set<float> values;
  for (int64_t i = 0; i < 50; ++i) values.insert(bias_value(bias, 0, 0, i, 0, 50, 1));
  ASSERT_EQ(values.size(), 3u);
  EXPECT_LT(*values.begin(), -3e38);
  EXPECT_LT(*++values.begin(), -1e20);
  EXPECT_LT(*values.rbegin(), -2e4);
}

TEST(Biases, NeverChange) {
  uint64_t hash = 0;
  for (int kind = 0; kind < kBiasKinds; ++kind) {
    for (int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      const Bias bias = {dtype, static_cast<BiasKind>(kind), {PatternKind::kRandom, 2, 9}, {}, 4};
      float row[20];
      for (int64_t i = 0; i < 20; ++i) {
        bias_row(bias, 1, 2, i, 20, 20, row);
        for (int64_t j = 0; j < 20; ++j) {
          ASSERT_EQ(row[j], bias_value(bias, 1, 2, i, j, 20, 20));
          hash = mix(hash, std::bit_cast<uint32_t>(row[j]), 0, 0, 0);
        }
      }
    }
  }
  EXPECT_EQ(hash, 13630071345815478845u);
}

TEST(Fills, AreFast) {
  std::vector<uint16_t> row(64);
  for (FillKind kind : {FillKind::kGaussian, FillKind::kUniform, FillKind::kPosition}) {
    double best = 1e9;
    for (int round = 0; round < 20; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int64_t s = 0; s < 200; ++s) fill_row({.kind = kind, .seed = 1}, ATTN_F16, 0, 0, s, 64, row.data());
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / (200 * 64));
    }
    RecordProperty("ns_an_element_" + std::to_string(static_cast<int>(kind)), std::to_string(best));
    EXPECT_LT(best, 20) << "2 ns on a quiet machine";
  }
}

// A device's compiler uses fused multiply-adds, and a device must have the values of the host.
TEST(Fills, HaveTheSameBitsWhereProductsAreJoinedIntoSums) {
  for (uint64_t seed = 0; seed < 20'000; ++seed)
    ASSERT_EQ(hash_of_values(seed), contracted_hash_of_values(seed)) << "seed " << seed;
}

}  // namespace
}  // namespace attnfuzz
