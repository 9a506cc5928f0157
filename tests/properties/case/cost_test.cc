// Tests the order by which the reducer prefers cases, and the order of planted values within it.
#include "properties/case/features/cost.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/places/planted_rank.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

TEST(Complexity, DiffersWhereCasesDiffer) {
  std::map<std::vector<int64_t>, std::string> seen;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = random_case(seed);
    const auto [it, added] = seen.emplace(complexity(c), encode(c));
    EXPECT_TRUE(added || it->second == encode(c)) << it->second << "\n" << encode(c);
  }
}

TEST(Complexity, PlantedRanksAreOneToOne) {
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    std::set<uint32_t> ranks;
    for (uint32_t i = 0; i < 0x10000; ++i) {
      // All 16-bit patterns; in fp32 the patterns around each multiple of 2^20.
      const uint32_t bits = dtype != ATTN_F32 ? i : (i >> 4) * 0x100000 + (i & 15) - 8;
      const uint32_t rank = planted_rank(bits, dtype);
      EXPECT_EQ(bits_of_rank(rank, dtype), bits);
      EXPECT_TRUE(ranks.insert(rank).second);
    }
  }
  EXPECT_EQ(planted_rank(0, ATTN_F16), 0u);
  EXPECT_EQ(planted_rank(0x3f80, ATTN_BF16), 1u);
  EXPECT_EQ(planted_rank(0x7c00, ATTN_F16), 2u);
  EXPECT_EQ(planted_rank(0x7fc00000, ATTN_F32), 3u);
  EXPECT_EQ(planted_rank(1, ATTN_F16), 4u);
}

// Scores and dLSE are fp32 in a 16-bit problem, and keep their planted bits if the problem's format changes.
TEST(Complexity, PlantedValuesHaveTheFormatOfTheirTensor) {
  Case c;
  c.problem.features = ATTN_FEATURE_NSA_SELECT;
  c.planted = {{.tensor = TensorId::kScores, .bits = 0xff800000}};
  EXPECT_EQ(planted_dtype(c, c.planted[0]), ATTN_F32);
  EXPECT_EQ(bits_of_rank(2, planted_dtype(c, c.planted[0])), 0x7f800000u);
  c.problem.features = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DLSE;
  c.planted = {{.tensor = TensorId::kDlse, .bits = 0x40490fdb}, {.tensor = TensorId::kQ, .bits = 0x7e00}};
  EXPECT_EQ(planted_dtype(c, c.planted[0]), ATTN_F32);
  for (const int32_t dtype : {ATTN_BF16, ATTN_F32, ATTN_F16}) {
    set_dtype(c, dtype);
    EXPECT_EQ(c.planted[0].bits, 0x40490fdbu) << dtype;
    EXPECT_EQ(planted_dtype(c, c.planted[1]), dtype);
    EXPECT_EQ(c.planted[1].bits, dtype == ATTN_BF16 ? 0x7fc0u : dtype == ATTN_F32 ? 0x7fc00000u : 0x7e00u);
  }
}

TEST(Complexity, OrdersByMeaning) {
  Case small, big;
  big.problem.batch = 2;
  small.problem.seq_k = 1000;
  EXPECT_LT(complexity(small), complexity(big));
  Case plain, causal;
  causal.problem.causal = true;
  EXPECT_LT(complexity(plain), complexity(causal));
  Case long_plain;
  long_plain.problem.seq_k = 2;
  EXPECT_LT(complexity(causal), complexity(long_plain));
}

}  // namespace
}  // namespace attnfuzz
