// Tests the table of axes and the coverage that is measured in it.
#include "properties/draw/coverage.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "properties/axes/axis.h"
#include "properties/case/codec/codec.h"
#include "properties/draw/covering.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

GeneratorConfig config_of_any_kernel() {
  GeneratorConfig config;
  config.variants = 4;
  config.splits = true;
  return config;
}

Tiled tiled(const Case& c) { return {c, c.problem, 64, 64, c.problem.num_splits}; }

// The classes of a case, as numbers in the whole table.
std::vector<uint32_t> classes_of(const Case& c) {
  std::vector<uint32_t> is;
  uint32_t first = 0;
  for (const CaseAxis& axis : axes()) {
    if (const int at = axis.of(tiled(c)); at != kNoClass) is.push_back(first + static_cast<uint32_t>(at));
    first += static_cast<uint32_t>(axis.classes.size());
  }
  return is;
}

TEST(Axes, EveryCaseHasAClassOfEachOrNone) {
  for (uint64_t i = 0; i < 3000; ++i) {
    const Case c = draw(config_of_any_kernel(), 5, i);
    for (const CaseAxis& axis : axes()) {
      const int at = axis.of(tiled(c));
      ASSERT_GE(at, kNoClass) << axis.name;
      ASSERT_LT(at, static_cast<int>(axis.classes.size())) << axis.name << " " << encode(c);
    }
  }
}

TEST(Axes, ClassesOfNumbersHaveTheirDocumentedLimits) {
  const auto keys = std::ranges::find(axes(), "seq_k", &CaseAxis::name);
  ASSERT_NE(keys, axes().end());
  Case c;
  const auto is = [&](int64_t n) {
    c.problem.seq_k = n;
    return keys->classes.at(static_cast<size_t>(keys->of(tiled(c))));
  };
  EXPECT_EQ(is(0), "0");
  EXPECT_EQ(is(63), "63");
  EXPECT_EQ(is(64), "64");
  EXPECT_EQ(is(65), "65");
  EXPECT_EQ(is(66), "66..126");
  EXPECT_EQ(is(126), "66..126");
  EXPECT_EQ(is(1023), "258..1023");
  EXPECT_EQ(is(2047), "1024..2047");
  EXPECT_EQ(is(32767), "16384..32767");
  EXPECT_EQ(is(32768), "32768..65535");
  EXPECT_EQ(is(int64_t{1} << 31), "65536 or more");
  const auto tiles = std::ranges::find(axes(), "keys in tiles:", &CaseAxis::name);
  ASSERT_NE(tiles, axes().end());
  for (const auto& [n, name] : std::vector<std::pair<int64_t, std::string>>{{0, "none"},
                                                                            {1, "in the first"},
                                                                            {62, "in the first"},
                                                                            {63, "1 tiles less 1"},
                                                                            {64, "1 tiles"},
                                                                            {65, "1 tiles and 1"},
                                                                            {66, "in number 2"},
                                                                            {127, "2 tiles less 1"},
                                                                            {193, "3 tiles and 1"},
                                                                            {194, "beyond"},
                                                                            {256, "beyond"},
                                                                            {INT64_MAX, "beyond"}}) {
    c.problem.seq_k = n;
    EXPECT_EQ(tiles->classes.at(static_cast<size_t>(tiles->of(tiled(c)))), name) << n;
  }
  const auto count = std::ranges::find(axes(), "key tiles:", &CaseAxis::name);
  ASSERT_NE(count, axes().end());
  for (const auto& [n, name] : std::vector<std::pair<int64_t, std::string>>{
           {1, "1"}, {64, "1"}, {65, "2"}, {320, "5"}, {321, "6..8"}, {512, "6..8"}, {1025, "17 or more"}}) {
    c.problem.seq_k = n;
    EXPECT_EQ(count->classes.at(static_cast<size_t>(count->of(tiled(c)))), name) << n;
  }
}

// together() takes the row of steering classes with the most triples that were not seen.
TEST(Covering, CombinesTheClassesThatWereSeenLeast) {
  SeenTriples seen;
  EXPECT_EQ(seen.unseen({{0, 0}, {1, 0}, {2, 0}}), 0);  // nothing was counted
  std::vector<size_t> steering;
  for (size_t n = 0; n < axes().size() && steering.size() < 4; ++n)
    if (axes()[n].steers > 0) steering.push_back(n);
  const std::vector<AxisRequest> row = {{steering[0], 0}, {steering[1], 1}, {steering[2], 2}};
  seen.add(row);
  EXPECT_EQ(seen.unseen(row), 0);
  EXPECT_GT(seen.unseen({{steering[0], 0}, {steering[1], 1}, {steering[3], 2}}), 0);
  EXPECT_GT(seen.unseen({{steering[0], 0}, {steering[1], 1}, {steering[2], 1}}), 0);
}

// If no case can have a class, the table is wrong.
TEST(Axes, EveryClassCanBeMade) {
  GeneratorConfig config = config_of_any_kernel();
  config.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED;
  const Covered covered = measure(Coverage(), config, 1);
  uint64_t classes = 0;
  for (const CaseAxis& axis : axes()) classes += axis.classes.size();
  std::set<std::string> legal(covered.classes_missing.begin(), covered.classes_missing.end()), not_legal;
  for (const CaseAxis& axis : axes()) {
    for (const std::string& name : axis.classes) {
      if (!legal.contains(axis.name + " " + name)) not_legal.insert(axis.name + " " + name);
    }
  }
  // Elements of 2 and 4 bytes are aligned to their size, and gaps are whole elements.
  EXPECT_EQ(not_legal,
            (std::set<std::string>{"alignment of bias of 1 byte", "alignment of k of 1 byte",
                                   "alignment of lse of 1 byte", "alignment of lse of 2 bytes",
                                   "alignment of o of 1 byte", "alignment of q of 1 byte",
                                   "alignment of v of 1 byte", "gap after rows of lse of single bytes"}));
  EXPECT_EQ(covered.classes.met, 0u);
  EXPECT_EQ(covered.classes.legal, classes - not_legal.size());
}

// A kernel with packed entries and pages meets each place of their lengths by chance, though no request asks
// for one. For a kernel without them these classes are not legal.
TEST(Coverage, CountsWhereLengthsOfEntriesLie) {
  GeneratorConfig config = config_of_any_kernel();
  const auto of_entries = [](const std::string& name) {
    return name.starts_with("packed ") || name.starts_with("keys in pages: ");
  };
  EXPECT_EQ(std::ranges::count_if(measure(Coverage(), config, 1).classes_missing, of_entries), 0);
  config.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED;
  EXPECT_EQ(std::ranges::count_if(measure(Coverage(), config, 1).classes_missing, of_entries), 15);
  config.covering = std::make_shared<Covering>(config);
  Coverage met;
  for (uint64_t i = 0; i < 4000; ++i) met.add(tiled(draw(config, 3, i)));
  for (const std::string& name : measure(met, config, 1).classes_missing)
    EXPECT_FALSE(of_entries(name)) << name;
  for (uint64_t number = 0; number < 4000; ++number) {
    for (const AxisRequest& request : config.covering->row(1, number)) ASSERT_TRUE(axes()[request.axis].asked);
  }
}

TEST(Coverage, CountsClassesThatCasesHaveTogether) {
  const GeneratorConfig config = config_of_any_kernel();
  Coverage even, odd, all;
  std::set<uint32_t> classes;
  std::set<std::array<uint32_t, 2>> pairs;
  for (uint64_t i = 0; i < 40; ++i) {
    const Case c = draw(config, 6, i);
    (i % 2 == 0 ? even : odd).add(tiled(c));
    all.add(tiled(c));
    const std::vector<uint32_t> is = classes_of(c);
    for (size_t a = 0; a < is.size(); ++a) {
      classes.insert(is[a]);
      for (size_t b = a + 1; b < is.size(); ++b) pairs.insert({is[a], is[b]});
      if (a + 2 < is.size()) EXPECT_TRUE(all.met(is[a], is[a + 1], is[a + 2]));
    }
  }
  even.merge(odd);
  EXPECT_EQ(even.bytes(), all.bytes());
  EXPECT_EQ(Coverage::of_bytes(all.bytes()).bytes(), all.bytes());
  EXPECT_THROW(Coverage::of_bytes("too short"), std::runtime_error);
  const Covered covered = measure(all, config);
  EXPECT_EQ(covered.classes.met, classes.size());
  EXPECT_EQ(covered.pairs.met, pairs.size());
  EXPECT_GT(covered.pairs.legal, covered.pairs.met);
  EXPECT_GT(covered.triples.legal, covered.triples.met);
  EXPECT_EQ(covered.pairs_missing.size(), kNamed);
}

// The covering requests the pairs that chance rarely meets.
TEST(Coverage, IsLargerIfTheRarestPairsAreRequested) {
  const GeneratorConfig alone = config_of_any_kernel();
  GeneratorConfig config = alone;
  config.covering = std::make_shared<Covering>(alone);
  Coverage by_chance, asked;
  for (uint64_t i = 0; i < 1500; ++i) {
    by_chance.add(tiled(draw(alone, 8, i)));
    asked.add(tiled(draw(config, 8, i)));
  }
  const auto pairs = [&](const Coverage& met) { return measure(met, config, 2).pairs.percent(); };
  EXPECT_GT(pairs(asked), pairs(by_chance) + 3);
}

// A class that the kernel refuses does not count as legal.
TEST(Coverage, RefusedClassesAreNotLegal) {
  GeneratorConfig config = config_of_any_kernel();
  for (const Feature* feature : all_features()) {
    for (const Refusal& refusal : feature->refusals) {
      if (refusal.name == std::string("softcap")) config.refused.those.push_back(&refusal);
    }
  }
  const std::vector<std::string> legal = measure(Coverage(), config, 1).classes_missing;
  EXPECT_TRUE(std::ranges::count(legal, "softcap: none"));
  EXPECT_FALSE(std::ranges::count(legal, "softcap: up to 5"));
  EXPECT_FALSE(std::ranges::count(legal, "softcap: above 5"));
  EXPECT_TRUE(std::ranges::count(legal, "causal: bottom-right"));
}

}  // namespace
}  // namespace attnfuzz
