// Tests what is drawn of packed entries, keys in pages and keys of 8 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

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
namespace feature {
extern const Feature packing, paging;
}

namespace {

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
  EXPECT_GT(automatic, kCases / 25)
      << "entries that hold few keys of many, with splits that the kernel chooses";
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
    if (!p.packed_k || (layout_of(c, TensorId::kK).spread == 0 && layout_of(c, TensorId::kV).spread == 0))
      continue;
    for (int64_t b = 0; b < p.batch; ++b) {
      ++entries;
      beyond += (*p.key_lengths)[static_cast<size_t>(b)] > packed_length(*p.packed_k, p.seq_k, b) + 1;
    }
  }
  EXPECT_GT(entries, 200);
  EXPECT_LT(beyond, entries * 32 / 100)
      << "of " << entries;  // one case in four keeps the lengths of the longest entry
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

}  // namespace
}  // namespace attnfuzz
