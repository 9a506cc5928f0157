// Tests that each situation holds exactly in the cases that its name describes.
#include "properties/judge/situations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

Verdict verdict_of(int64_t tile_q = 64, int64_t tile_k = 64) {
  Verdict v;
  v.plan.tile_q = tile_q;
  v.plan.tile_k = tile_k;
  v.plan.num_splits = 1;
  return v;
}

Case of_lengths(int64_t seq_q, int64_t seq_k) {
  Case c;
  c.problem.seq_q = seq_q;
  c.problem.seq_k = seq_k;
  c.problem.dim_qk = c.problem.dim_v = 16;
  return c;
}

std::set<std::string> names(const Case& c, const Verdict& v = verdict_of()) {
  std::set<std::string> all;
  for (const uint16_t id : situations(c, v)) all.insert(situation_name(id));
  return all;
}

TEST(Situations, NamesAreUnique) {
  EXPECT_LE(situation_count(), kSituations);
  std::set<std::string> all;
  for (uint16_t id = 0; id < situation_count(); ++id) {
    const std::string name = situation_name(id);
    EXPECT_FALSE(name.empty()) << id;
    EXPECT_TRUE(all.insert(name).second) << name;
  }
  EXPECT_EQ(situation_name(static_cast<uint16_t>(situation_count())), "");
}

TEST(Situations, AscendEachOnceAndBelowTheirEnd) {
  const GeneratorConfig config;
  for (uint64_t i = 0; i < 300; ++i) {
    const std::vector<uint16_t> ids = situations(draw(config, 1, i), verdict_of());
    EXPECT_TRUE(std::ranges::is_sorted(ids));
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
    EXPECT_LT(ids.back(), situation_count());
    EXPECT_GE(ids.size(), 5u);
  }
}

TEST(Situations, DeadTilesByPlace) {
  Case c = of_lengths(8, 256);
  EXPECT_TRUE(names(c).count("no row dead"));
  c.problem.mask.emplace();
  c.problem.mask->visible = {PatternKind::kLastKey, 1, 0};
  auto seen = names(c);
  EXPECT_TRUE(seen.count("first kv tile dead"));
  EXPECT_TRUE(seen.count("middle kv tile dead"));
  EXPECT_FALSE(seen.count("last kv tile dead"));
  EXPECT_TRUE(seen.count("no row dead"));
  c.problem.mask->visible = {PatternKind::kFirstKey, 1, 0};
  seen = names(c);
  EXPECT_FALSE(seen.count("first kv tile dead"));
  EXPECT_TRUE(seen.count("last kv tile dead"));
  c.problem.mask->visible = {PatternKind::kNothing, 1, 0};
  EXPECT_TRUE(names(c).count("every row dead"));
  c.problem.seq_k = 64;
  EXPECT_TRUE(names(c).count("only kv tile dead"));
}

TEST(Situations, DeadTilesAndRowsAtTheirEdges) {
  for (const std::string& name : names(of_lengths(64, 256)))
    EXPECT_EQ(name.find("kv tile with"), std::string::npos) << name;
  Case c = of_lengths(8, 129);
  c.problem.mask.emplace();
  c.problem.mask->visible = {PatternKind::kLastKey, 1, 0};  // the first of its tile
  EXPECT_TRUE(names(c).count("middle kv tile dead"));
  // Only the first row of a tile sees nothing.
  c = of_lengths(65, 64);
  c.problem.causal = true;
  c.problem.align = ATTN_BOTTOM_RIGHT;
  EXPECT_TRUE(names(c).count("some rows dead"));
  // Only the last of four query tiles sees nothing.
  c = of_lengths(256, 192);
  c.problem.window_left = 0;
  EXPECT_TRUE(names(c).count("some rows dead"));
  // The last tile is dead by the mask for one batch entry, and out of reach for the next.
  c = of_lengths(8, 128);
  c.problem.batch = 2;
  c.problem.mask.emplace();
  c.problem.mask->visible = {PatternKind::kNothing, 1, 0};
  c.problem.key_lengths = {128, 0};
  EXPECT_TRUE(names(c).count("last kv tile dead"));
  EXPECT_TRUE(names(c).count("last kv tile out of reach"));
}

// Rows and keys that a packed entry lacks are neither dead nor out of reach.
TEST(Situations, RowsBeyondAPackedEntryDoNotCount) {
  Case c = of_lengths(128, 256);
  c.problem.batch = 2;
  c.problem.packed_q = Packing{.lengths = {8, 70}};
  c.problem.packed_k = Packing{.lengths = {64, 20}};
  auto seen = names(c);
  EXPECT_TRUE(seen.count("no row dead"));
  for (const std::string& name : seen) EXPECT_EQ(name.find("kv tile "), std::string::npos) << name;
  c.problem.packed_k->lengths = {64, 0};
  EXPECT_TRUE(names(c).count("some rows dead"));
}

TEST(Situations, CallsAreCounted) {
  Case c = of_lengths(4, 4);
  const auto any = [&](const char* name) { return names(c).count(name) == 1; };
  EXPECT_TRUE(any("calls: 1") && any("workspace clean") && any("streams: one"));
  c.calls = {Call{}, Call{}};
  EXPECT_TRUE(any("calls: 2"));
  EXPECT_FALSE(any("calls: 1") || any("calls: 3 or more") || any("workspace dirty") || any("streams: two"));
  c.calls = {Call{}, Call{}, Call{.dirty_workspace = true}};
  EXPECT_FALSE(any("calls: 2"));
  EXPECT_TRUE(any("calls: 3 or more") && any("workspace dirty"));
  EXPECT_FALSE(any("streams: two"));
  c.calls.resize(9);
  EXPECT_TRUE(any("calls: 3 or more"));
  c.calls = {Call{}, Call{.stream = 1}};
  EXPECT_TRUE(any("streams: two"));
}

TEST(Situations, TilesHiddenByCausalityAreOutOfReachNotDead) {
  Case c = of_lengths(64, 128);
  c.problem.causal = true;
  const auto seen = names(c);
  EXPECT_TRUE(seen.count("last kv tile out of reach"));
  EXPECT_FALSE(seen.count("last kv tile dead"));
  c.problem.align = ATTN_BOTTOM_RIGHT;
  EXPECT_FALSE(names(c).count("last kv tile out of reach"));
  EXPECT_TRUE(names(c).count("bottom-right diagonal at a border, one tile"));
  c.problem.seq_q = 128;
  c.problem.seq_k = 64;
  EXPECT_TRUE(names(c).count("some rows dead"));
}

TEST(Situations, BordersOfTiles) {
  EXPECT_TRUE(names(of_lengths(64, 65)).count("queries in tiles: 1 tiles"));
  EXPECT_TRUE(names(of_lengths(64, 65)).count("keys in tiles: 1 tiles and 1"));
  EXPECT_TRUE(names(of_lengths(0, 191)).count("queries in tiles: none"));
  EXPECT_TRUE(names(of_lengths(1, 191)).count("keys in tiles: 3 tiles less 1"));
  Case c = of_lengths(10, 200);
  c.problem.window_left = 128;
  c.problem.key_lengths = {130};
  c.problem.dim_v = 17;
  auto seen = names(c);
  EXPECT_TRUE(seen.count("dim_qk 16"));
  EXPECT_TRUE(seen.count("dim_v 17"));
  EXPECT_TRUE(seen.count("window_left in tiles: 2 tiles"));
  for (const std::string& name : seen) EXPECT_EQ(name.rfind("bottom-right", 0), std::string::npos) << name;
  c.problem.align = ATTN_BOTTOM_RIGHT;
  seen = names(c);
  EXPECT_TRUE(seen.count("bottom-right diagonal within a tile, three tiles or more"));
  EXPECT_TRUE(seen.count("shortest key length in tiles: in number 3"));
}

TEST(Situations, BothLengthsTogether) {
  Case c = of_lengths(131, 65);
  c.problem.heads_q = c.problem.heads_kv = 3;
  EXPECT_TRUE(names(c).count("3 heads, of queries three tiles or more, of keys two tiles"));
  EXPECT_TRUE(names(c).count("seq_q within a tile and seq_k one beyond a border, two tiles of keys"));
  c.problem.causal = true;
  c.problem.heads_q = 12;
  EXPECT_TRUE(names(c).count("more heads causal, of queries three tiles or more, of keys two tiles"));
}

TEST(Situations, SplitsAndTheEmptyOnes) {
  Verdict v = verdict_of();
  v.plan.num_splits = 4;
  v.plan.split_tiles = 1;
  EXPECT_TRUE(names(of_lengths(1, 256), v).count("no split empty"));
  EXPECT_TRUE(names(of_lengths(1, 192), v).count("one split empty"));
  EXPECT_TRUE(names(of_lengths(1, 64), v).count("several splits empty"));
  Case c = of_lengths(1, 256);
  for (const int64_t splits : {0, 4}) {
    c.problem.num_splits = splits;
    EXPECT_TRUE(names(c, v).count("splits that hold keys: 4"));
    EXPECT_TRUE(names(c, v).count("splits: as many as tiles"));
    EXPECT_EQ(names(c, v).count("splits: as the kernel chooses"), splits == 0 ? 1u : 0u);
  }
}

TEST(Situations, ErrorOverBoundByPowersOfTwo) {
  Verdict v = verdict_of();
  const Case c = of_lengths(1, 1);
  EXPECT_TRUE(names(c, v).count("f16: error/bound 0"));
  v.worst = 0.25;
  EXPECT_TRUE(names(c, v).count("f16: error/bound up to 2^-2"));
  v.worst = 0.26;
  EXPECT_TRUE(names(c, v).count("f16: error/bound up to 2^-1"));
  v.worst = 1e-12;
  EXPECT_TRUE(names(c, v).count("f16: error/bound up to 2^-20"));
  for (const double worst : {1.5, 1e300, std::numeric_limits<double>::infinity()}) {
    v.worst = worst;
    EXPECT_TRUE(names(c, v).count("f16: error/bound above 1"));
  }
}

TEST(Situations, FeaturesInPairsOfADtype) {
  Case c = of_lengths(4, 4);
  c.problem.dtype = ATTN_BF16;
  c.problem.causal = true;
  c.problem.softcap = 5;
  const auto seen = names(c);
  EXPECT_TRUE(seen.count("bf16: causal"));
  EXPECT_TRUE(seen.count("bf16: softcap with causal"));
  EXPECT_FALSE(seen.count("f16: causal"));
  EXPECT_FALSE(seen.count("bf16: softcap with mask"));
}

TEST(Situations, PathAndVariant) {
  Verdict a = verdict_of(), b = a;
  std::strcpy(a.plan.path, "64x64 d64");
  std::strcpy(b.plan.path, "64x64 d128");
  const Case c = of_lengths(1, 1);
  EXPECT_NE(situations(c, a), situations(c, b));
  Case other = c;
  other.env.variant = 2;
  EXPECT_NE(situations(c, a), situations(other, a));
  const auto variant = [&](int32_t n) {
    other.env.variant = n;
    for (const std::string& name : names(other, a))
      if (name.rfind("path #", 0) == 0) return name.substr(name.find(", "));
    return std::string();
  };
  EXPECT_EQ(variant(0), ", variant 0");
  EXPECT_EQ(variant(2), ", variant 2");
  EXPECT_EQ(variant(99), ", variant 4");
}

TEST(Situations, ACaseThatNeverRanHasOnlyItsOutcome) {
  Verdict v;
  v.outcome = Outcome::kRefused;
  EXPECT_EQ(names(of_lengths(3, 3), v), (std::set<std::string>{"rejected", "kind: none"}));
  EXPECT_EQ(names(of_lengths(3, 3), verdict_of(0, 64)).size(), 2u);
  EXPECT_EQ(names(of_lengths(3, 3), verdict_of(64, 0)).size(), 2u);
  v.outcome = Outcome::kFail;
  v.kind = Kind::kCrash;
  EXPECT_EQ(names(of_lengths(3, 3), v), (std::set<std::string>{"failed", "kind: crash"}));
}

// A kernel's plan may hold any values.
TEST(Situations, SurviveAnyPlan) {
  for (const int64_t tile : {int64_t{1}, int64_t{7}, INT64_MAX}) {
    Verdict v = verdict_of(tile, tile);
    v.plan.num_splits = v.plan.split_tiles = INT64_MAX;
    std::memset(v.plan.path, 'x', sizeof v.plan.path);
    Case c = of_lengths(300, 300);
    c.env.variant = INT32_MAX;
    EXPECT_LT(situations(c, v).back(), situation_count());
  }
}

}  // namespace
}  // namespace attnfuzz
