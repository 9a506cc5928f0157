// Tests that cases are drawn within what a kernel declares, and mostly without what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "properties/case/codec/codec.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/case/places/planted_rank.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "properties/draw/mutate.h"
#include "properties/draw/ordinary.h"
#include "properties/draw/rapidcheck_rng.h"
#include "properties/memory/layout.h"
#include "reference/numbers/formats.h"
#include "tests/properties/draw/our_kernels.h"
#include "tests/properties/draw/refused.h"

namespace attnfuzz {
namespace {

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
