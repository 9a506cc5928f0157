// Tests that drawn cases are always legal, are the same for the same seed, and are varied enough.
#include "properties/draw/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "properties/case/codec/codec.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/case/places/planted_rank.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/draw/mutate.h"
#include "properties/draw/ordinary.h"
#include "properties/draw/rapidcheck_rng.h"
#include "properties/memory/layout.h"
#include "reference/numbers/formats.h"
#include "tests/properties/draw/our_kernels.h"
#include "tests/properties/draw/refused.h"

namespace attnfuzz {
namespace {

std::string sizes(const Problem& p) {
  Case c;
  c.problem = p;
  return encode(c);
}

TEST(Generator, KeepsItsFloors) {
  const std::vector<std::vector<int64_t>> kernels = {{16}, {64}, {128}, {64, 32}};
  for (const std::vector<int64_t>& tiles : kernels) {
    GeneratorConfig config = config_of_our_kernels();
    config.tiles_q = config.tiles_k = tiles;
    if (tiles[0] == 64) config.covering = std::make_shared<Covering>(config);
    Classification classification;
    for (uint64_t i = 0; i < 5000; ++i) classification.add(draw(config, 1, i), tiles[0], tiles[0]);
    EXPECT_TRUE(classification.broken_floors().empty()) << classification.table();
  }
}

// On a GPU most cases leave the variant to the kernel and have an H200's environment. Tiles are larger there,
// and the floors hold as well.
TEST(Generator, OnAGpuMostCasesAreOfTheKernelsOwnChoice) {
  GeneratorConfig config = config_of_our_kernels();
  config.on_gpu = true;
  config.tiles_q = {192, 128};
  config.tiles_k = {128, 80};
  config.tilings = {{0, 64, 192, 128}, {0, 128, 128, 128}, {0, 256, 128, 80}, {1, 128, 64, 64},
                    {1, 256, 64, 32},  {2, 128, 128, 128}, {2, 256, 64, 64}};
  config.work = kGpuWork;
  config.covering = std::make_shared<Covering>(config);
  Classification classification;
  int own = 0, here = 0;
  constexpr int kCases = 5000;
  for (uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw(config, 1, i);
    own += c.env.variant == 0;
    here += c.env.compute_capability == 90;
    const Tiling tiling = tiling_of(config, c);
    classification.add(c, tiling.q, tiling.k);
  }
  EXPECT_GE(own, kCases * 7 / 10);
  EXPECT_GE(here, kCases * 6 / 10);
  EXPECT_TRUE(classification.broken_floors().empty()) << classification.table();
}

TEST(Generator, PlantedValuesKeepTheirMeaningInAnotherFormat) {
  Case c;
  for (const uint32_t bits : {0x7e00u, 0x7c00u, 0xfc00u, 0x3c00u, 0x8001u})
    c.planted.push_back({TensorId::kV, 0, 0, 0, 0, bits});
  set_dtype(c, ATTN_F32);
  const uint32_t due[] = {0x7fc00000, 0x7f800000, 0xff800000, 0x3f800000, 0xb3800000};
  for (size_t n = 0; n < std::size(due); ++n) EXPECT_EQ(c.planted[n].bits, due[n]) << n;
  c.planted[4].bits = 0xff7fffff;
  set_dtype(c, ATTN_F16);
  const uint32_t again[] = {0x7e00, 0x7c00, 0xfc00, 0x3c00, 0xfbff};
  for (size_t n = 0; n < std::size(again); ++n) EXPECT_EQ(c.planted[n].bits, again[n]) << n;
}

TEST(Generator, IsLegal) {
  for (uint64_t i = 0; i < 4000; ++i) {
    const Case c = draw(config_of_our_kernels(), 2, i);
    EXPECT_EQ(illegal(c), std::nullopt) << encode(c);
  }
}

// Tiles of 1 to 4, as a kernel without tiles declares.
TEST(Generator, IsLegalForTheSmallestTiles) {
  for (int64_t tile = 1; tile <= 4; ++tile) {
    GeneratorConfig config = config_of_our_kernels();
    config.tiles_q = config.tiles_k = {tile};
    for (uint64_t i = 0; i < 4000; ++i) {
      const Case c = draw(config, 2, i);
      EXPECT_EQ(illegal(c), std::nullopt) << tile << " " << encode(c);
    }
  }
}

TEST(Generator, ReachesEveryFillPatternAndBias) {
  std::set<FillKind> fills;
  std::set<PatternKind> patterns;
  std::set<BiasKind> biases;
  for (uint64_t i = 0; i < 6000; ++i) {
    const Case c = draw(config_of_our_kernels(), 3, i);
    fills.insert({c.q.kind, c.k.kind, c.v.kind});
    if (c.problem.mask) patterns.insert(c.problem.mask->visible.kind);
    if (c.problem.bias) biases.insert(c.problem.bias->kind);
  }
  EXPECT_EQ(fills.size(), static_cast<size_t>(kFillKinds));
  EXPECT_EQ(patterns.size(), static_cast<size_t>(kPatternKinds));
  EXPECT_EQ(biases.size(), static_cast<size_t>(kBiasKinds));
}

// Ordinary problems are like those of models: long decode with usual head dims, grouped heads, only causal
// masks.
TEST(Generator, OrdinaryProblemsAreDrawn) {
  for (const uint64_t seed : {1, 2}) {
    int many_keys = 0, wide = 0, widest = 0, grouped = 0, plain = 0, two_heads = 0, longer = 0, longest = 0;
    int latent = 0, six = 0, positions_first = 0;
    for (uint64_t i = 0; i < 1000; ++i) {
      const Case c = draw(config_of_our_kernels(), seed, i);
      const Problem& p = c.problem;
      six += p.seq_q > 5 * 64 && p.seq_k > 5 * 64 && p.dim_qk >= 64;
      latent += p.dim_qk == 192 && p.dim_v == 128;
      positions_first += c.layout[0].order[1] == 2 && c.layout[0].order == c.layout[1].order &&
                         c.layout[0].order == c.layout[2].order && c.layout[0].row_gap == 0;
      if (p.batch == 0 || p.seq_q == 0 || p.seq_k < 1024 || std::min(p.dim_qk, p.dim_v) < 64) continue;
      ++many_keys;
      wide += p.dim_qk == 128;
      widest += p.dim_qk == 256;
      grouped += p.heads_q != p.heads_kv;
      plain += !p.causal && p.window_left < 0 && !p.mask && !p.bias && !p.key_lengths;
      two_heads += p.heads_q > 1 && p.seq_k > 1100;
      longer += p.seq_k >= 4096;
      longest += p.seq_k >= 16384;
    }
    EXPECT_GE(many_keys, 60);
    EXPECT_GE(wide, 8);
    EXPECT_GE(widest, 2);
    EXPECT_GE(grouped, 8);
    EXPECT_GE(plain, 15);
    EXPECT_GE(two_heads, 5);
    EXPECT_GE(longer, 6);
    EXPECT_GE(longest, 1);
    EXPECT_GE(latent, 4);
    EXPECT_GE(six, 3);
    EXPECT_GE(positions_first, 25);
  }
}

// Sizes far from the usual ones are drawn, and not only those of a fixed list.
TEST(Generator, TailsAreLong) {
  int caps = 0, models = 0, scales = 0, biases = 0, per_head = 0, entries = 0, groups = 0, kv_heads = 0;
  std::set<float> different;
  for (uint64_t i = 0; i < 2000; ++i) {
    const Problem p = draw(config_of_our_kernels(), 3, i).problem;
    if (p.softcap != 0) different.insert(p.softcap);
    models += p.softcap >= 15 && p.softcap <= 20;
    caps += p.softcap > 50;
    scales += std::abs(p.scale) > 4;
    biases += p.bias && p.bias->kind == BiasKind::kWide;
    per_head += p.bias && p.bias->dtype == ATTN_F32 && p.bias->broadcast == Broadcast{.batch = true};
    const bool keys = p.seq_k > 0 && p.seq_q > 0;
    entries += keys && p.batch > 10;
    groups += keys && p.heads_q / p.heads_kv > 32;
    kv_heads += keys && p.heads_kv > 16;
  }
  EXPECT_GE(different.size(), 200u);
  EXPECT_GE(models, 20);
  EXPECT_GE(caps, 20);
  EXPECT_GE(scales, 20);
  EXPECT_GE(biases, 30);
  EXPECT_GE(per_head, 60);
  EXPECT_GE(entries, 8);
  EXPECT_GE(groups, 2);
  EXPECT_GE(kv_heads, 2);
}

// Kernels with splits get many splits that hold keys in one case of 50.
TEST(Generator, ManySplitsHoldKeys) {
  const GeneratorConfig config = config_of_our_kernels();
  int more_than_8 = 0, more_than_64 = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const Case c = draw(config, 4, i);
    const int64_t tile = tiling_of(config, c).k, tiles = (c.problem.seq_k + tile - 1) / tile;
    const int64_t splits = std::min(c.problem.num_splits, tiles);
    more_than_8 += splits > 8;
    more_than_64 += splits > 64;
  }
  EXPECT_GE(more_than_8, 40);
  EXPECT_GE(more_than_64, 10);
}

TEST(Generator, DependsOnlyOnSeedAndIndex) {
  const GeneratorConfig config = config_of_our_kernels();
  const Case ninth = draw(config, 7, 9);
  draw(config, 7, 8);
  EXPECT_EQ(draw(config, 7, 9), ninth);
  EXPECT_NE(encode(draw(config, 8, 9)), encode(ninth));
  EXPECT_NE(encode(draw(config, 7, 10)), encode(ninth));
}

// Combinations of four classes of steering axes are met within 20,000 cases.
TEST(Generator, MeetsCombinationsOfFourClasses) {
  GeneratorConfig config = config_of_our_kernels();
  config.covering = std::make_shared<Covering>(config);
  std::array<int, 3> met = {};
  for (uint64_t i = 0; i < 20'000; ++i) {
    const Problem p = draw(config, 12, i).problem;
    met[0] += p.heads_q == 2 && p.seq_q == 129 && p.causal && p.softcap != 0;
    met[1] += p.heads_q == 3 && p.seq_k == 65 && p.causal && p.seq_q > 130;
    met[2] += p.batch == 2 && p.softcap != 0 && p.window_left == 64 && p.seq_k > 192;
  }
  for (const int n : met) EXPECT_GE(n, 1);
}

// Draws lengths that are always `length`. Equal configurations share one covering design.
GeneratorConfig long_rows(int64_t length) {
  GeneratorConfig config;
  config.domain.emplace();
  config.domain->seq_q.least = config.domain->seq_q.most = length;
  config.domain->seq_k = config.domain->seq_q;
  return config;
}

TEST(Generator, DrawsMasksAndBiasesForLongRows) {
  const GeneratorConfig config = long_rows(65536);
  int masks = 0, biases = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const Case c = draw(config, 1, i);
    EXPECT_FALSE(illegal(c));
    masks += c.problem.mask.has_value(), biases += c.problem.bias.has_value();
  }
  EXPECT_GT(masks, 10);
  EXPECT_GT(biases, 10);
}

TEST(Generator, ACoveringReportsADomainThatCannotBeDrawn) {
  EXPECT_THROW(Covering(long_rows(int64_t{1} << 33)).size(), std::runtime_error);
}

TEST(Generator, CoveringIsTheSameForTheSameConfig) {
  GeneratorConfig config = config_of_our_kernels(), again = config;
  config.covering = std::make_shared<Covering>(config);
  again.covering = std::make_shared<Covering>(again);
  EXPECT_GT(config.covering->size(), 1000u);
  int asked = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const Case c = draw(config, 7, i);
    EXPECT_EQ(draw(again, 7, i), c);
    EXPECT_EQ(illegal(c), std::nullopt);
    asked += c != draw(config_of_our_kernels(), 7, i);
  }
  // Three of four cases, and cases with a length beyond 16 bits, follow the covering; ordinary cases do not.
  EXPECT_GT(asked, 90);
  EXPECT_LE(asked, 150);
}

// Streams are compared between machines by this digest.
TEST(Generator, StreamDigestDoesNotDependOnTheOrder) {
  const GeneratorConfig config = config_of_our_kernels();
  StreamDigest forward, even, odd;
  for (uint64_t i = 0; i < 100; ++i) forward.add(i, draw(config, 1, i));
  for (uint64_t i = 0; i < 100; ++i) (i % 2 == 0 ? even : odd).add(i, draw(config, 1, i));
  odd.merge(even);
  EXPECT_EQ(forward.hex(), odd.hex());
}

// A kernel computes whole tiles, so the average is taken over padded sizes.
TEST(Generator, StaysWithinItsWork) {
  const auto padded = [](int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; };
  for (int64_t tile : {16, 64, 128}) {
    GeneratorConfig config = config_of_our_kernels();
    config.tiles_q = config.tiles_k = {tile};
    double sum = 0, sum_in_part = 0;
    int dear = 0, far = 0;
    constexpr int kDraws = 2000;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const Problem p = draw(config, 5, i).problem;
      const int64_t columns = p.batch * p.heads_q * (p.dim_qk + p.dim_v);
      Case c;
      c.problem = p;
      c.env.variant = 1;
      if (!affordable(c, config)) {  // costs more than usual
        ++far;
        ASSERT_LE(columns * p.seq_q * p.seq_k, far_work(config)) << sizes(p);
        continue;
      }
      ASSERT_LE(columns * p.seq_q * p.seq_k, config.work) << sizes(p);
      const int64_t tiles = columns * padded(p.seq_q, tile) * padded(p.seq_k, tile);
      const bool is_long = std::max(p.seq_q, p.seq_k) >= 1024;
      // A case with requested classes may cost as much as a mutated case. A decode case fills only a part of
      // its tiles.
      const int64_t times = is_long ? 64 : p.seq_q <= 8 ? 24 : 6;
      const int64_t row = is_long ? 128 * tile * padded(std::max(p.seq_q, p.seq_k), tile) : 0;
      ASSERT_LE(tiles, std::max({times * config.work, 8 * 128 * tile * tile, row})) << sizes(p);
      dear += !is_long && tiles > std::max(2 * config.work, 8 * 128 * tile * tile);
      const bool few_of_many = p.seq_q <= 8 && p.batch * p.heads_q > 8;
      (is_long || few_of_many ? sum_in_part : sum) += static_cast<double>(tiles);
    }
    EXPECT_LE(dear, kDraws / 20);
    EXPECT_LE(far, kDraws / 50);
    // Four tiles are drawn even if they exceed the budget.
    EXPECT_LE(sum / kDraws, static_cast<double>(config.work) * (tile > 64 ? 1.3 : 0.4));
    // With few queries only a part of each tile is computed.
    EXPECT_LE(sum_in_part / kDraws, static_cast<double>(config.work) * (tile > 64 ? 3 : 1.5));
  }
}

// Some kernel's loop ends at each of these sizes and pairs of sizes.
TEST(Generator, LandsOnTileBorders) {
  std::set<int64_t> queries, keys;
  int far = 0;
  for (uint64_t i = 0; i < 6000; ++i) {
    const Case c = draw(config_of_our_kernels(), 4, i);
    queries.insert(c.problem.seq_q);
    keys.insert(c.problem.seq_k);
    const std::vector<std::string> names = features(c, 64, 64);
    far += std::ranges::find(names, "offsets > 2^31") != names.end();
  }
  for (int64_t size : {0, 1, 63, 64, 65, 66, 67, 127, 128, 129, 130, 131}) {
    EXPECT_TRUE(queries.count(size)) << size;
    EXPECT_TRUE(keys.count(size)) << size;
  }
  EXPECT_GE(far, 60);
}

// The draw reaches the ends of 16, 24, 31 and 32 bits, for each tensor and for both lengths separately.
TEST(Generator, ReachesTheEndsOfShortIntegers) {
  int long_queries = 0, long_keys = 0, many_tiles = 0, wide = 0;
  std::set<int32_t> devices;
  std::array<int, kTensorCount> far = {};
  for (uint64_t i = 0; i < 6000; ++i) {
    const Case c = draw(config_of_our_kernels(), 9, i);
    long_queries += c.problem.seq_q >= 32768;
    long_keys += c.problem.seq_k >= 32768;
    const int64_t longest = std::max(c.problem.seq_q, c.problem.seq_k);
    many_tiles += longest >= 2048 && longest < 32768;
    devices.insert(c.env.sm_count);
    wide += c.problem.window_right >= std::numeric_limits<int32_t>::max();
    for (size_t t = 0; t < far.size(); ++t) far[t] += c.layout[t].spread >= int64_t{1} << 31;
  }
  EXPECT_GE(long_queries, 8);
  EXPECT_GE(long_keys, 8);
  EXPECT_GE(many_tiles, 8);
  EXPECT_GE(devices.size(), 100u);
  EXPECT_GE(wide, 20);
  EXPECT_GE(far[static_cast<size_t>(TensorId::kLse)], 5);
  for (const TensorId t :
       {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO, TensorId::kBias, TensorId::kMask}) {
    EXPECT_GE(far[static_cast<size_t>(t)], 20) << kTensorNames[static_cast<size_t>(t)];
  }
}

TEST(Generator, FillsGridsOfADevice) {
  int many = 0;
  for (uint64_t i = 0; i < 60000; ++i) {
    const Case c = draw(config_of_our_kernels(), 6, i);
    if (c.problem.batch * c.problem.heads_q < 60000) continue;
    ++many;
    EXPECT_EQ(illegal(c), std::nullopt);
  }
  EXPECT_GE(many, 2);
  // One comes early enough for a check of few cases.
  bool early = false;
  for (uint64_t i = 0; i < 500; ++i)
    early |= draw(config_of_our_kernels(), 6, i).problem.batch *
                 draw(config_of_our_kernels(), 6, i).problem.heads_q >=
             60000;
  EXPECT_TRUE(early);
}

// The stream of cases is equal on every machine, and each run prints its digest.
TEST(Generator, StreamIsTheSameOnEveryMachine) {
  StreamDigest digest;
  for (uint64_t i = 0; i < 200; ++i) digest.add(i, draw(config_of_our_kernels(), 1, i));
  EXPECT_EQ(digest.hex(), "ba8cca4cc0797cbcfbc40fe7d881b480") << "the draw was changed: pin the new digest";
}

}  // namespace
}  // namespace attnfuzz
