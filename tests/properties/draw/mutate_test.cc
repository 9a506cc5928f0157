// Tests that mutated cases are always legal, cheap and reproducible, and that mutation reaches every feature.
#include "properties/draw/mutate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/feature.h"
#include "properties/draw/ordinary.h"
#include "tests/properties/draw/our_kernels.h"
#include "tests/properties/draw/refused.h"

namespace attnfuzz {
namespace {

int64_t work(const Problem& p) { return p.batch * p.heads_q * p.seq_q * p.seq_k * (p.dim_qk + p.dim_v); }

// Checks the conditions that every mutated case must meet.
void expect_sound(const Case& c, const GeneratorConfig& config) {
  ASSERT_EQ(illegal(c), std::nullopt) << encode(c);
  ASSERT_LE(work(c.problem), config.work) << encode(c);
  ASSERT_TRUE(affordable(c, config)) << encode(c);
  ASSERT_EQ(c.remap, Remap{});
  const auto back = decode(encode(c));
  ASSERT_TRUE(std::holds_alternative<Case>(back)) << encode(c);
  ASSERT_EQ(std::get<Case>(back), c);
}

TEST(Mutate, IsLegalAndAffordableForGenerations) {
  const GeneratorConfig config = config_of_our_kernels();
  for (uint64_t chain = 0; chain < 40; ++chain) {
    Case c = draw(config, 1, chain);
    for (uint64_t i = 0; i < 100; ++i) {
      c = mutate(c, config, chain * 1000 + i);
      expect_sound(c, config);
    }
  }
}

// Costs count whole tiles, blocks and bytes.
TEST(Mutate, CostsNoMoreThanADrawnCase) {
  const auto padded = [](int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; };
  const GeneratorConfig config = config_of_our_kernels();
  double sum = 0;
  int n = 0, long_ones = 0;
  for (uint64_t chain = 0; chain < 20; ++chain) {
    Case c = draw(config, 11, chain);
    for (uint64_t i = 0; i < 100; ++i, ++n) {
      c = mutate(c, config, chain * 1000 + i);
      const Problem& p = c.problem;
      const int64_t blocks =
          p.batch * p.heads_q * std::max<int64_t>(p.num_splits, 1) * padded(p.seq_q, 64) / 64;
      EXPECT_LE(blocks, 140000) << encode(c);
      const bool is_long = std::max(p.seq_q, p.seq_k) >= 1024;
      const int64_t tiles = p.batch * p.heads_q * padded(p.seq_q, 64) * padded(p.seq_k, 64) * 2 *
                            padded(std::max(p.dim_qk, p.dim_v), 64);
      // A long case has one row or column of tiles; a decode case fills only a part of its tiles.
      EXPECT_LE(tiles, is_long ? int64_t{66000} * 64 * 128 : (p.seq_q <= 8 ? 24 : 6) * config.work)
          << encode(c);
      long_ones += is_long;
      if (!is_long) sum += static_cast<double>(tiles);
    }
  }
  EXPECT_LE(sum / n,
            static_cast<double>(config.work));  // a chain of mutations does not drift to the limit
  EXPECT_LE(long_ones, n / 50);
}

TEST(Mutate, DependsOnlyOnItsInputs) {
  const GeneratorConfig config = config_of_our_kernels();
  const Case a = draw(config, 2, 1), b = draw(config, 2, 2);
  std::set<std::string> different;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Case m = mutate(a, config, seed), x = cross(a, b, config, seed);
    mutate(b, config, seed + 1);
    EXPECT_EQ(mutate(a, config, seed), m);
    EXPECT_EQ(cross(a, b, config, seed), x);
    different.insert(encode(m));
  }
  EXPECT_GE(different.size(), 40u);
}

TEST(Mutate, ChangesMostlyOneOrTwoParts) {
  const GeneratorConfig config = config_of_our_kernels();
  int near = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    const Case c = draw(config, 3, i), m = mutate(c, config, i);
    EXPECT_NE(m, c);
    int same = 0;
    same += m.problem.seq_q == c.problem.seq_q && m.problem.seq_k == c.problem.seq_k;
    same += m.problem.causal == c.problem.causal && m.problem.mask == c.problem.mask;
    same += m.q == c.q && m.k == c.k && m.v == c.v;
    same += m.env == c.env && m.calls == c.calls;
    near += same >= 3;
  }
  EXPECT_GE(near, 350);
}

// Starts at the simplest case, and takes a few hundred random steps.
TEST(Mutate, ReachesEveryFeatureFromTheSimplestCase) {
  const GeneratorConfig config = config_of_our_kernels();
  std::set<std::string> seen, drawn;
  for (uint64_t i = 0; i < 4000; ++i) {
    for (std::string& name : features(draw(config, 4, i), 64, 64)) drawn.insert(std::move(name));
  }
  std::set<PatternKind> masks;
  std::set<BiasKind> biases;
  std::set<FillKind> fills;
  std::set<int64_t> keys;
  for (uint64_t chain = 0; chain < 80; ++chain) {
    Case c;
    for (uint64_t i = 0; i < 80; ++i) {
      c = mutate(c, config, chain * 1000 + i);
      for (std::string& name : features(c, 64, 64)) seen.insert(std::move(name));
      if (c.problem.mask) masks.insert(c.problem.mask->visible.kind);
      if (c.problem.bias) biases.insert(c.problem.bias->kind);
      fills.insert({c.q.kind, c.k.kind, c.v.kind});
      keys.insert(c.problem.seq_k);
    }
  }
  for (const std::string& name : drawn) {
    // One draw in ten thousand has it, so 80 chains of 80 steps may miss it.
    if (name != "grid > 65535") EXPECT_TRUE(seen.count(name)) << name;
  }
  EXPECT_EQ(masks.size(), static_cast<size_t>(kPatternKinds));
  EXPECT_EQ(biases.size(), static_cast<size_t>(kBiasKinds));
  EXPECT_EQ(fills.size(), static_cast<size_t>(kFillKinds));
  for (const int64_t border : {0, 1, 63, 64, 65, 127, 128, 129, 191, 192, 193}) {
    EXPECT_TRUE(keys.count(border)) << border;
  }
}

TEST(Mutate, MostlyAvoidsRefusedFeatures) {
  GeneratorConfig config = config_of_our_kernels();
  config.refused =
      refused({"bf16", "causal", "windows", "bias", "softcap", "grouped heads", "dim_v other than dim_qk"});
  int refused = 0;
  constexpr int kCases = 3000;
  Case a = draw(config, 5, 0);
  for (uint64_t i = 0; i < kCases; ++i) {
    // Also starting at a case of a kernel that takes everything.
    const Case full = draw(config_of_our_kernels(), 5, i);
    const Case c = i % 2 ? mutate(full, config, i) : cross(a, full, config, i);
    const Problem& p = c.problem;
    expect_sound(c, config);
    refused += p.dtype == ATTN_BF16 || p.causal || p.window_left >= 0 || p.window_right >= 0 || p.bias ||
               p.softcap > 0 || p.heads_q != p.heads_kv || p.dim_v != p.dim_qk || p.dim_qk > 64;
  }
  EXPECT_LT(refused, kCases / 20);
}

// A file's case may cost more than a campaign allows, and may have features that are never drawn.
TEST(Mutate, MakesAnyReadableCaseAffordable) {
  const GeneratorConfig config = config_of_our_kernels();
  Case large;
  large.problem.batch = 3;
  large.problem.heads_q = large.problem.heads_kv = 16;
  large.problem.seq_q = large.problem.seq_k = 2000;
  large.problem.dim_qk = large.problem.dim_v = 200;
  ASSERT_EQ(illegal(large), std::nullopt);
  Case impossible = large;
  impossible.problem.heads_kv = 0;
  impossible.problem.seq_q = int64_t{1} << 62;
  Case variant = draw(config, 6, 0);
  variant.remap.key.repeat = 2;
  variant.problem.num_splits = int64_t{1} << 62;
  variant.problem.key_lengths = std::vector<int64_t>(static_cast<size_t>(variant.problem.batch), INT64_MIN);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const Case& c : {large, impossible, variant}) {
      expect_sound(mutate(c, config, seed), config);
      expect_sound(cross(c, draw(config, 6, seed), config, seed), config);
      expect_sound(cross(draw(config, 6, seed), c, config, seed), config);
    }
  }
}

TEST(Affordable, HoldsForNearlyAllDrawnCasesAndForNoHugeOne) {
  const GeneratorConfig config = config_of_our_kernels();
  int beyond = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const Case c = draw(config, 8, i);
    beyond += !affordable(c, config);
    EXPECT_LE(work(c.problem), far_work(config)) << encode(c);
  }
  EXPECT_GE(beyond, 15);
  EXPECT_LE(beyond, 35);
  Case large;
  large.problem.seq_q = large.problem.seq_k = 4000;
  EXPECT_FALSE(affordable(large, config));
  Case blocks;  // nothing to compute, but 10^9 blocks
  blocks.problem.batch = blocks.problem.heads_q = 32768;
  blocks.problem.seq_k = 0;
  EXPECT_FALSE(affordable(blocks, config));
}

TEST(Cross, TakesPartsOfBoth) {
  const GeneratorConfig config = config_of_our_kernels();
  int both = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    Case a = draw(config, 7, 2 * i), b = draw(config, 7, 2 * i + 1);
    a.env.sm_count = 11;
    a.v.seed = 70001;
    a.v.kind = FillKind::kGaussian;
    b.env.sm_count = 22;
    b.v.seed = 70002;
    b.v.kind = FillKind::kGaussian;
    const Case c = cross(a, b, config, i);
    expect_sound(c, config);
    EXPECT_NE(c, a);
    EXPECT_NE(c, b);
    both += (c.env.sm_count == 11) != (c.v.seed == 70001);
  }
  EXPECT_GE(both, 50);
}

}  // namespace
}  // namespace attnfuzz
