// Tests that drawn cases are always legal, are the same for the same seed, and are varied enough.
#include "properties/draw/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
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
namespace feature {
extern const Feature packing, paging;
}
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

// On a GPU most cases leave the variant to the kernel and have an H200's environment. Tiles are larger there, and the
// floors hold as well.
TEST(Generator, OnAGpuMostCasesAreOfTheKernelsOwnChoice) {
  GeneratorConfig config = config_of_our_kernels();
  config.on_gpu = true;
  config.tiles_q = {192, 128};
  config.tiles_k = {128, 80};
  config.tilings = {{0, 64, 192, 128}, {0, 128, 128, 128}, {0, 256, 128, 80}, {1, 128, 64, 64}, {1, 256, 64, 32},
                    {2, 128, 128, 128}, {2, 256, 64, 64}};
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

// fp32 is drawn for kernels that declare it. If they declare only fp32, nothing else is drawn.
TEST(Generator, Fp32IsDrawnWhereItIsDeclared) {
  constexpr uint32_t kF16 = 1u << ATTN_F16, kBf16 = 1u << ATTN_BF16, kF32 = 1u << ATTN_F32;
  for (const uint32_t dtypes : {0u, kF16, kF16 | kBf16, kF32, kF16 | kF32, kF16 | kBf16 | kF32}) {
    GeneratorConfig config = config_of_our_kernels();
    attn_domain domain = {};
    domain.size = sizeof domain;
    domain.dtypes = dtypes;
    config.domain = domain;
    std::array<int, 3> drawn = {};
    for (uint64_t i = 0; i < 300; ++i) {
      const Case c = draw(config, 3, i);
      ASSERT_EQ(illegal(c), std::nullopt) << encode(c);
      ASSERT_EQ(std::get<Case>(decode(encode(c))), c);
      ++drawn[static_cast<size_t>(c.problem.dtype)];
    }
    const uint32_t due = dtypes ? dtypes : kF16 | kBf16;
    for (size_t dtype = 0; dtype < 3; ++dtype)
      EXPECT_EQ(drawn[dtype] > 0, (due >> dtype & 1) != 0) << "dtypes " << dtypes << ", dtype " << dtype;
    // Moving a case that is inside the domain changes nothing.
    Case c = draw(config, 3, 1);
    const Case before = c;
    fit(*config.domain, c);
    EXPECT_EQ(c, before);
  }
}

// Do the addresses and strides that a kernel gets follow the declared layout?
bool are_laid(const attn_domain& d, const Case& c, Arena& arena) {
  const attn_tensors tensors = placed(c, arena);
  for (const TensorSpec& spec : kTensors) {
    if (!spec.strided() || spec.role == Role::kScratch || !is_present(c, spec.id)) continue;
    attn_tensor t;
    std::memcpy(&t, reinterpret_cast<const char*>(&tensors) + spec.at.offset, sizeof t);
    const std::array<int64_t, 4> size = logical_size(c.problem, spec.id);
    if (std::ranges::find(size, 0) != size.end()) continue;
    const bool score = spec.id == TensorId::kBias || spec.id == TensorId::kMask;
    if (d.align_bytes && reinterpret_cast<uintptr_t>(t.data) % d.align_bytes != 0) return false;
    if (d.layout && size[3] > 1 && t.stride[3] != 1) return false;
    int64_t dense = 1;
    for (int n = 3; n >= 0; --n) {
      const bool repeats = score && t.stride[n] == 0;
      if (d.layout == ATTN_LAYOUT_DENSE && size[n] > 1 && !repeats && t.stride[n] != dense) return false;
      if (!repeats) dense *= size[n];
      const bool rows = n < 3 && !score && spec.id != TensorId::kLse && d.layout != ATTN_LAYOUT_DENSE;
      if (d.align_bytes && rows && size[n] > 1 &&
          t.stride[n] * element_bytes(c.problem, spec.id) % d.align_bytes)
        return false;
    }
  }
  return true;
}

// The layouts of drawn, mutated and moved cases are those that the domain declares, and as varied as without
// it.
TEST(Generator, LayoutsFollowTheDeclaration) {
  Arena arena;
  for (const auto& [layout, align] : {std::pair{ATTN_LAYOUT_DENSE, 0},
                                      {ATTN_LAYOUT_DENSE, 64},
                                      {ATTN_LAYOUT_INNER, 0},
                                      {ATTN_LAYOUT_INNER, 16},
                                      {ATTN_LAYOUT_ANY, 8}}) {
    GeneratorConfig config = config_of_our_kernels();
    attn_domain domain = {};
    domain.size = sizeof domain;
    domain.layout = layout;
    domain.align_bytes = align;
    ASSERT_EQ(leaves_nothing(domain, config.features), std::nullopt);
    config.domain = domain;
    int outside = 0, moved = 0, gaps = 0, ends = 0;
    for (uint64_t i = 0; i < 400; ++i) {
      const Case any = draw(config_of_our_kernels(), 5, i);
      outside += !are_laid(domain, any, arena);
      Case fitted = any;
      fit(domain, fitted);
      ASSERT_EQ(are_laid(domain, any, arena), lies_within(domain, any)) << encode(any);
      ASSERT_TRUE(are_laid(domain, fitted, arena)) << encode(fitted);
      const Case c = draw(config, 5, i);
      ASSERT_EQ(illegal(c), std::nullopt) << encode(c);
      ASSERT_TRUE(are_laid(domain, c, arena)) << encode(c);
      const Case changed = mutate(c, config, i);
      ASSERT_TRUE(are_laid(domain, changed, arena)) << encode(changed);
      for (const TensorLayout& l : c.layout) {
        moved += l.offset != 0;
        gaps += l.row_gap != 0 || l.order != TensorLayout{}.order;
        ends += l.placement == Placement::kPageEnd;
      }
    }
    EXPECT_GT(outside, 20) << layout << " " << align;
    EXPECT_GT(moved, 50) << layout << " " << align;
    EXPECT_GT(ends, 20) << layout << " " << align;
    if (layout != ATTN_LAYOUT_DENSE) EXPECT_GT(gaps, 50) << layout << " " << align;
  }
}

// A feature for which the kernel promises nothing, and which it cannot refuse, is in no case. A refused feature
// is in a few cases.
TEST(Generator, ExcludedFeaturesAreNotDrawn) {
  constexpr Refusal kPlanted = {"planted values", [](Problem&) {}, [](Case& c) { c.planted.clear(); }};
  GeneratorConfig config = config_of_our_kernels();
  config.refused.those = {&kPlanted};
  int drawn[2] = {};
  for (const bool never : {false, true}) {
    if (never) config.never = {&kPlanted};
    for (uint64_t i = 0; i < 1000; ++i) drawn[never] += !draw(config, 1, i).planted.empty();
  }
  EXPECT_GT(drawn[0], 0);
  EXPECT_EQ(drawn[1], 0);
}

// A kernel without a domain declares by a feature bit that it takes fp32. A domain without formats means fp16
// and bf16.
TEST(Generator, DrawsFp32ForAKernelWithTheFeature) {
  const auto drawn = [](const GeneratorConfig& config) {
    int count = 0;
    for (uint64_t i = 0; i < 200; ++i) count += draw(config, 1, i).problem.dtype == ATTN_F32;
    return count;
  };
  GeneratorConfig config = {.features = ATTN_FEATURE_F32};
  EXPECT_GT(drawn(config), 40);
  EXPECT_LT(drawn(config), 120);
  config.domain.emplace();
  EXPECT_EQ(drawn(config), 0);
  config.domain->dtypes = 1u << ATTN_F32;
  EXPECT_EQ(drawn(config), 200);
  EXPECT_EQ(drawn({}), 0);
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

// A kernel with few features is mostly checked on cases that it takes, and now and then on others.
TEST(Generator, MostlyAvoidsRefusedFeatures) {
  GeneratorConfig config = config_of_our_kernels();
  config.refused = refused({"bf16", "causal", "windows", "key lengths", "bias", "softcap", "grouped heads",
                            "dim_v other than dim_qk"});
  int refused = 0, masked = 0;
  constexpr int kCases = 4000;
  for (uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw(config, 2, i);
    EXPECT_EQ(illegal(c), std::nullopt) << encode(c);
    const Problem& p = c.problem;
    refused += p.dtype == ATTN_BF16 || p.causal || p.window_left >= 0 || p.window_right >= 0 || p.key_lengths ||
               p.bias || p.softcap > 0 || p.heads_q != p.heads_kv || p.dim_v != p.dim_qk || p.dim_qk > 64;
    masked += p.mask.has_value();
  }
  EXPECT_GT(refused, kCases / 100);
  EXPECT_LT(refused, kCases / 25);
  EXPECT_GT(masked, kCases / 5);  // biases that hide keys were turned into masks
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

// A kernel without these feature bits gets the same cases as before the bits existed.
TEST(Draw, OnlyKernelsThatTakeThemGetWideAndLatentProblems) {
  GeneratorConfig plain, wide;
  plain.splits = wide.splits = true;
  wide.features = ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT;
  int absorbed = 0, others = 0, same = 0, rows_of_models = 0;
  constexpr int kCases = 4000;
  for (uint64_t i = 0; i < kCases; ++i) {
    const Case a = draw(plain, 1, i), b = draw(wide, 1, i);
    EXPECT_FALSE(a.problem.latent);
    EXPECT_LE(std::max(a.problem.dim_qk, a.problem.dim_v), 256);
    ASSERT_EQ(illegal(b), std::nullopt) << encode(b);
    const Problem& p = b.problem;
    if (a == b) {
      ++same;
    } else if (p.dim_qk == 576 && p.dim_v == 512) {
      ++absorbed;
      rows_of_models += p.heads_kv == 1 && p.heads_q >= 16 && p.seq_q >= 1 && p.seq_q <= 4 && p.latent;
    } else {
      ++others;
    }
  }
  EXPECT_GT(same, kCases * 3 / 4);
  EXPECT_GT(absorbed, kCases / 25);
  EXPECT_GT(rows_of_models, kCases / 50);
  EXPECT_GT(others, kCases / 50);
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

// Packed entries and pages change the batch, lengths, strides and the diagonal, and stay within a declared
// domain.
TEST(Generator, DrawsPackedEntriesAndPagesWithinTheDomain) {
  GeneratorConfig config = config_of_our_kernels();
  config.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED;
  config.domain.emplace();
  attn_domain& d = *config.domain;
  d.size = sizeof d;
  d.batch = {1, 3, 0, 0, {}};
  d.seq_q = {1, 70, 0, 0, {}};
  d.align = 1 + ATTN_BOTTOM_RIGHT;
  d.layout = ATTN_LAYOUT_DENSE;
  int packed = 0, paged = 0, several = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const Case c = draw(config, 5, i);
    const Problem& p = c.problem;
    packed += p.packed_q || p.packed_k, paged += p.paging.has_value();
    several += (p.packed_q || p.paging) && p.batch > 1;
    ASSERT_TRUE(p.batch >= 1 && p.batch <= 3 && p.seq_q >= 1 && p.seq_q <= 70) << i;
    if (!p.packed_q && !p.packed_k && !p.paging) continue;
    if (p.causal || p.window_left >= 0 || p.window_right >= 0) EXPECT_EQ(p.align, ATTN_BOTTOM_RIGHT) << i;
    for (const TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO})
      EXPECT_EQ(c.layout[static_cast<size_t>(t)].spread, 0) << i << " " << name_of(t);
  }
  EXPECT_GT(packed, 300);
  EXPECT_GT(paged, 300);
  EXPECT_GT(several, 300);
}

// A kernel that refuses key lengths still gets pages, which are then full of keys.
TEST(Generator, DrawsFullPagesForAKernelWithoutKeyLengths) {
  GeneratorConfig config = config_of_our_kernels();
  config.features |= ATTN_FEATURE_PAGED;
  for (const Feature* feature : all_features())
    for (const Refusal& refusal : feature->refusals)
      if (refusal.limit == Limit::kNoKeyLengths) config.refused.those.push_back(&refusal);
  ASSERT_EQ(config.refused.those.size(), 1u);
  int paged = 0, dense = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    Case c = draw(config, 6, i);
    strip_refused(config.refused, c);
    tidy(c);
    if (!c.problem.paging) {
      dense += c.problem.key_lengths.has_value();
      continue;
    }
    ++paged;
    EXPECT_EQ(illegal(c), std::nullopt);
    for (const int64_t length : *c.problem.key_lengths) EXPECT_EQ(length, c.problem.seq_k);
  }
  EXPECT_GT(paged, 60);
  EXPECT_EQ(dense, 0);
}

// Scales of every kind and form and codes of both formats are drawn. A kernel that does not take 8 bits gets
// none.
TEST(Generator, DrawsKeysOfEightBits) {
  GeneratorConfig config = config_of_our_kernels();
  config.features |= ATTN_FEATURE_PAGED;
  std::set<int> formats, kinds, forms;
  int narrow = 0, unlike = 0, planted = 0, nan = 0, by_page = 0;
  for (uint64_t i = 0; i < 6000; ++i) {
    config.features &= ~ATTN_FEATURE_KV8;
    const Case without = draw(config, 6, i);
    ASSERT_FALSE(without.problem.kv8.has_value());
    config.features |= ATTN_FEATURE_KV8;
    const Case c = draw(config, 6, i);
    if (!c.problem.kv8) {
      ASSERT_TRUE(c == without) << "a case without 8 bits is as before: " << i;
      continue;
    }
    const Kv8& kv8 = *c.problem.kv8;
    ASSERT_EQ(illegal(c), std::nullopt) << i;
    ++narrow;
    formats.insert(static_cast<int>(kv8.format));
    unlike += kv8.k != kv8.v;
    for (const KvScales& s : {kv8.k, kv8.v}) {
      kinds.insert(static_cast<int>(s.kind));
      forms.insert(s.entries + 2 * s.heads + 4 * s.keys);
      by_page += s.page > 0;
      ASSERT_TRUE(s.page == 0 || (c.problem.paging && c.problem.paging->size == s.page)) << i;
    }
    for (const Planted& x : c.planted) {
      if (x.tensor != TensorId::kK && x.tensor != TensorId::kV) continue;
      ++planted;
      ASSERT_LE(x.bits, 0xffu);
      nan += std::isnan(decode(dtype_of(kv8.format), &x.bits, 0));
    }
  }
  EXPECT_GT(narrow, 500);
  EXPECT_GT(unlike, narrow / 2);
  EXPECT_GT(by_page, 20);
  EXPECT_GT(nan, 0);
  EXPECT_GT(planted, nan) << "infinities are planted, too; E4M3 has its largest number for them";
  EXPECT_EQ(formats.size(), 2u);
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kScaleKinds));
  EXPECT_GE(forms.size(), 6u);
}

// Kernels treat these situations of stored keys apart: another loop, another table of scales, another number of
// splits. A bug mostly needs all of one situation, and most properties make packed entries and pages dense.
TEST(Generator, DrawsStoredKeysWithWhatKernelsTreatApart) {
  GeneratorConfig config = config_of_our_kernels();
  config.tiles_k = {64};
  config.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED | ATTN_FEATURE_KV8 | ATTN_FEATURE_INDEX32;
  constexpr int64_t kCases = 6000, kAutomatic = 5;
  int paged = 0, scaled = 0, automatic = 0, many = 0, cut = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    const Case c = draw(config, 7, i);
    const Problem& p = c.problem;
    if (p.seq_q == 0 || p.heads_q == 0) continue;
    if (p.packed_k && p.key_lengths) {
      bool shorter = false;
      for (int64_t b = 0; b < p.batch; ++b)
        shorter |= lengths_of(p, b).keys < packed_length(*p.packed_k, p.seq_k, b);
      cut += shorter;
    }
    if (!p.paging) continue;
    ++paged;
    const Pages pages(p);
    int64_t longest = 0, highest = 0;
    for (int64_t b = 0; b < p.batch; ++b) {
      longest = std::max(longest, lengths_of(p, b).keys);
      for (int64_t n = 0; n < pages.owned(b); ++n) highest = std::max(highest, pages.of(b, n));
    }
    const auto by_place = [](const KvScales& scales) { return scales.keys || scales.page > 0; };
    scaled += p.kv8 && longest > p.paging->size && (by_place(p.kv8->k) || by_place(p.kv8->v));
    many += highest >= int64_t{1} << 16;
    bool short_entry = false;
    for (int64_t b = 0; b < p.batch; ++b) short_entry |= lengths_of(p, b).keys + 64 < p.seq_k;
    automatic += p.num_splits == 0 && p.seq_k > kAutomatic * 64 && short_entry;
  }
  EXPECT_GT(paged, kCases / 4);
  EXPECT_GT(scaled, kCases / 15) << "8-bit keys in several pages, with scales by key or page";
  EXPECT_GT(automatic, kCases / 25) << "entries that hold few keys of many, with splits that the kernel chooses";
  EXPECT_GT(many, kCases / 55) << "pages in use with ids above 2^16";
  EXPECT_GT(cut, kCases / 27) << "packed keys that a key length hides";
}

// A packed entry may be shorter than the longest. The rows that it lacks are not dead rows, and no values are
// planted there.
TEST(Generator, RowsThatAPackedEntryLacksDoNotCount) {
  Case c;
  Problem& p = c.problem;
  p.batch = 2, p.seq_q = p.seq_k = 6;
  p.packed_q = Packing{{1, 2}, 0, false};
  p.packed_k = Packing{{4, 2}, 0, false};
  p.causal = true;
  tidy(c);
  const auto has_dead = [](const Case& of) {
    const std::vector<std::string> names = features(of, 64, 64);
    return std::ranges::find(names, "dead rows") != names.end();
  };
  EXPECT_FALSE(has_dead(c));
  c.problem.packed_k->lengths = {4, 0};
  EXPECT_TRUE(has_dead(c));
  c.planted = {{TensorId::kQ, 0, 0, 4, 0, 0x7e00}, {TensorId::kK, 1, 0, 0, 0, 0x7e00}};
  tidy(c);
  ASSERT_EQ(c.planted.size(), 1u);
  EXPECT_EQ(c.planted[0].s, 0);  // moved to the entry's only row; the entry without keys has none
}

// Lengths of entries at the borders of tiles and pages have names.
TEST(Generator, NamesWhereLengthsOfEntriesLie) {
  const auto places = [](const Case& c) {
    std::string found;
    for (const std::string& name : features(c, 64, 32)) {
      if (name.starts_with("packed: ") || name.starts_with("paged: ")) found += name + "; ";
    }
    return found;
  };
  using Lengths = std::vector<int64_t>;
  Case c;
  Problem& p = c.problem;
  p.batch = 2, p.seq_q = p.seq_k = 200;
  for (const auto& [lengths, place] :
       std::vector<std::pair<Lengths, std::string>>{{{0, 0}, "packed: all empty; "},
                                                    {{0, 5}, ""},
                                                    {{3, 70}, "packed: one long among short; "},
                                                    {{4, 70}, ""},
                                                    {{127, 5}, "packed: 1 below a tile; "},
                                                    {{5, 64}, "packed: whole tiles; "},
                                                    {{129, 5}, "packed: 1 above a tile; "},
                                                    {{1, 1}, ""}}) {
    p.packed_q = Packing{lengths, 0, false};
    EXPECT_EQ(places(c), place) << lengths[0] << " " << lengths[1];
  }
  p.packed_q.reset();
  p.packed_k = Packing{{31, 33}, 0, false};
  EXPECT_EQ(places(c), "packed: 1 below a tile; packed: 1 above a tile; ");
  p.packed_k.reset();
  p.paging = Paging{.size = 16};
  for (const auto& [lengths, place] :
       std::vector<std::pair<Lengths, std::string>>{{{-1, 0}, "paged: all empty; "},
                                                    {{0, 18}, "paged: one long among short; "},
                                                    {{31, 5}, "paged: 1 below a page; "},
                                                    {{5, 16}, "paged: whole pages; "},
                                                    {{17, 5}, "paged: 1 above a page; "},
                                                    {{1, 5}, ""}}) {
    p.key_lengths = lengths;
    EXPECT_EQ(places(c), place) << lengths[0] << " " << lengths[1];
  }
  p.paging->size = 1;  // then no length is below or above a border
  p.key_lengths = {3, 3};
  EXPECT_EQ(places(c), "paged: whole pages; ");
}

// The offset of a packed entry is a product that may exceed 32 bits.
TEST(Generator, DrawsPackedEntriesFarApart) {
  GeneratorConfig config = config_of_our_kernels();
  config.features |= ATTN_FEATURE_RAGGED;
  int far[4] = {};
  for (uint64_t i = 0; i < 4000; ++i) {
    const Case c = draw(config, 4, i);
    const PackedCase packed(c.problem);
    for (const TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO}) {
      if (!packing_of(c.problem, t)) continue;
      const std::optional<Geometry> g = geometry(c, t);
      const std::vector<int64_t>& borders = of_queries(spec_of(t)) ? packed.borders_q() : packed.borders_k();
      const int64_t last = borders.rbegin()[1], end = borders.back();
      far[static_cast<int>(t)] += g && last < end && std::abs(g->stride[2]) * last >= int64_t{1} << 31;
    }
  }
  for (const int met : far) EXPECT_GE(met, 10);
}

// Entries are shortened before they are laid far apart. Their key lengths move with them, or would hide no key.
TEST(Generator, KeyLengthsOfEntriesFarApartLieAroundTheirEnds) {
  GeneratorConfig config;
  config.features = ATTN_FEATURE_RAGGED;
  int entries = 0, beyond = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Case c;
    c.problem = {.batch = 4, .heads_q = 4, .heads_kv = 4, .seq_q = 4, .seq_k = 600, .dim_qk = 16, .dim_v = 16};
    c.problem.key_lengths.emplace(4, 600);
    RapidcheckRng rng{rc::Random(seed)};
    feature::packing.draw.draw({config, rng, 64, 64}, c);
    const Problem& p = c.problem;
    if (!p.packed_k || (layout_of(c, TensorId::kK).spread == 0 && layout_of(c, TensorId::kV).spread == 0)) continue;
    for (int64_t b = 0; b < p.batch; ++b) {
      ++entries;
      beyond += (*p.key_lengths)[static_cast<size_t>(b)] > packed_length(*p.packed_k, p.seq_k, b) + 1;
    }
  }
  EXPECT_GT(entries, 200);
  EXPECT_LT(beyond, entries * 32 / 100) << "of " << entries;  // one case in four keeps the lengths of the longest entry
}

// A case without work costs what its tensors have, so more capacity is no bargain there.
TEST(Generator, CapacityStaysWithinTheElementsOfATensor) {
  Case small;
  small.problem = {.batch = 4, .heads_q = 4, .heads_kv = 4, .seq_q = 1, .seq_k = 64, .dim_qk = 64, .dim_v = 64};
  GeneratorConfig config;
  config.features = ATTN_FEATURE_PAGED;
  const auto larger = [&](const Case& before) {
    int count = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
      rc::Random random(seed);
      RapidcheckRng rng(random);
      Case c = before;
      feature::paging.draw.draw({config, rng, 64, 64}, c);
      count += c.problem.seq_k > 64;
    }
    return count;
  };
  EXPECT_GT(larger(small), 10);
  Case idle = small;
  idle.problem.seq_q = 0;
  EXPECT_EQ(larger(idle), 0);
  config.elements = 4 * 4 * 64 * 64;  // those of `small`
  EXPECT_EQ(larger(small), 0);
}

// The pages of a cache follow from its capacity, though an append has no keys that a query sees.
TEST(Generator, CountsThePagesOfAnAppend) {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_APPEND;
  p.seq_k = 70'000;
  p.key_lengths = {69'000};
  p.paging = Paging{.size = 1};
  const std::vector<std::string> many = features(c, 64, 64);
  EXPECT_TRUE(std::ranges::count(many, "page ids above 2^16"));
  p.key_lengths = {300};
  const std::vector<std::string> few = features(c, 64, 64);
  EXPECT_TRUE(std::ranges::count(few, "pages") && !std::ranges::count(few, "page ids above 2^16"));
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

// Floors are adapted to a domain, and the draw keeps them in it.
TEST(Classification, FloorsOfADomainAreKept) {
  const auto sizes = [](int64_t least, int64_t most, int64_t multiple = 0) {
    return attn_sizes{least, most, multiple, 0, {}};
  };
  std::vector<attn_domain> domains(7);
  for (attn_domain& d : domains) d.size = sizeof d;
  domains[0].seq_q = domains[0].seq_k = sizes(1, 128);
  domains[1].seq_q = domains[1].seq_k = sizes(32, 0, 32), domains[1].dim_qk = domains[1].dim_v = sizes(1, 64);
  domains[1].equal_lengths = domains[1].equal_dims = 1;
  domains[2].seq_q = domains[2].seq_k = sizes(1, 200), domains[2].equal_lengths = 1;
  domains[3].dim_qk = domains[3].dim_v = {0, 0, 0, 2, {64, 128}}, domains[3].equal_lengths = 1;
  domains[4].seq_q = {0, 0, 0, 1, {1}}, domains[4].seq_k = sizes(1024, 4096), domains[4].group = sizes(1, 8);
  domains[5].seq_q = domains[5].seq_k = {0, 0, 0, 3, {16, 64, 256}}, domains[5].group = {0, 0, 0, 1, {1}};
  domains[6].align = 1 + ATTN_TOP_LEFT, domains[6].equal_lengths = 1;
  for (const attn_domain& d : domains) {
    GeneratorConfig config = config_of_our_kernels();
    config.tiles_k = {64};
    config.domain = d;
    if (&d == &domains[3]) config.work = 6 * least_work(d, 2 * 64 + 1);  // as a check does (config_for.cc)
    Classification drawn;
    drawn.reach = reach_in_domain(config);
    for (uint64_t i = 0; i < 1500; ++i) drawn.add(draw(config, 1, i), 64, 64);
    EXPECT_EQ(drawn.broken_floors({}, Classification::kByChance), std::vector<std::string>{})
        << &d - domains.data() << "\n"
        << drawn.table();
    const std::vector<std::string> eased = drawn.eased_floors();
    const auto says = [&](const char* text) { return std::ranges::find(eased, text) != eased.end(); };
    EXPECT_EQ(says("kv tiles >= 3: not reachable in this domain"), &d == &domains[0]) << &d - domains.data();
    EXPECT_EQ(says("gqa: not reachable in this domain"), &d == &domains[5]) << &d - domains.data();
  }
  EXPECT_TRUE(Classification{}.eased_floors().empty());
  EXPECT_TRUE(reach_in_domain(config_of_our_kernels()).empty());
}

// The classification reports only floors for which it has seen enough cases.
TEST(Classification, BrokenFloorsAreNamed) {
  Classification poor;
  for (int i = 0; i < 600; ++i) poor.add(Case{}, 64, 64);
  EXPECT_EQ(poor.broken_floors().size(), 3u);
  poor.rejected = 100;
  poor.uninformative = 100;
  EXPECT_EQ(poor.broken_floors().size(), 5u);
  EXPECT_TRUE(Classification{}.broken_floors().empty());
  // With 600 cases 13.8 % can be 15 % by chance. With 60,000 cases it cannot.
  for (const uint64_t cases : {600, 60'000}) {
    Classification sample;
    sample.cases = cases;
    for (const char* name : {"kv tiles >= 3", "gqa"}) sample.counts[name] = cases / 2;
    sample.counts["dead rows"] = cases * 138 / 1000;
    EXPECT_EQ(sample.broken_floors({}, Classification::kByChance).size(), cases == 600 ? 0u : 1u);
    EXPECT_EQ(sample.broken_floors().size(), 1u);
  }
}

}  // namespace
}  // namespace attnfuzz
