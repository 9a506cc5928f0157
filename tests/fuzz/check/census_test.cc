// Tests that a census counts calls by the values of their fields and by pairs of values, and names what never
// came.
#include "fuzz/check/counts/census.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace attnfuzz {
namespace {

size_t field(const std::string& name) {
  const auto it = std::ranges::find(census_fields(), name, &CensusField::name);
  EXPECT_NE(it, census_fields().end()) << name;
  return static_cast<size_t>(it - census_fields().begin());
}

size_t range(const std::string& name, const std::string& of) {
  const auto& ranges = census_fields()[field(name)].ranges;
  const auto it = std::ranges::find(ranges, of);
  EXPECT_NE(it, ranges.end()) << name << " " << of;
  return static_cast<size_t>(it - ranges.begin());
}

uint64_t count(const Census& census, const std::string& name, const std::string& of) {
  return census.count(field(name), range(name, of));
}

uint64_t sort(const Census& census, std::string_view name) {
  for (size_t n = 0; n < census_sorts().size(); ++n)
    if (census_sorts()[n].name == name) return census.sort(n);
  ADD_FAILURE() << name;
  return 0;
}

attn_plan plan_of_tiles(int64_t splits = 1, int64_t split_tiles = 1) {
  attn_plan plan = {};
  plan.tile_q = plan.tile_k = 64;
  plan.num_splits = splits;
  plan.split_tiles = split_tiles;
  return plan;
}

Case decode_of(int64_t keys, int64_t dim) {
  Case c;
  c.problem.seq_k = keys;
  c.problem.dim_qk = c.problem.dim_v = dim;
  return c;
}

TEST(Census, CountsTheFieldsOfFeatures) {
  Census census;
  Case c = decode_of(64, 576);
  c.problem.latent = true;
  c.problem.sink.emplace().kind = SinkKind::kMixed;
  c.problem.slopes.emplace().kind = SlopeKind::kSteep;
  census.add(c, plan_of_tiles());
  Case narrow = decode_of(64, 64);
  narrow.problem.kv8.emplace().format = KvFormat::kE5m2;
  census.add(narrow, plan_of_tiles());
  EXPECT_EQ(count(census, "dim_qk", "576"), 1u);
  EXPECT_EQ(count(census, "sinks", "mixed"), 1u);
  EXPECT_EQ(count(census, "sinks", "none"), 1u);
  EXPECT_EQ(count(census, "slopes", "steep"), 1u);
  EXPECT_EQ(count(census, "V is stored", "in K"), 1u);
  EXPECT_EQ(count(census, "K and V in 8 bits", "e5m2"), 1u);
  EXPECT_EQ(count(census, "K and V in 8 bits", "none"), 1u);
}

TEST(Census, CountsPackedEntries) {
  Census census;
  Case c = decode_of(64, 64);
  c.problem.batch = 2;
  c.problem.packed_k = Packing{.lengths = {0, 64}, .slack = 3};
  c.problem.index_dtype = ATTN_INDEX_32;
  census.add(c, plan_of_tiles());
  c.problem.packed_q = Packing{.lengths = {1, 1}};
  c.problem.packed_k->lengths = {5, 64};
  census.add(c, plan_of_tiles());
  c.problem.packed_k.reset();
  census.add(c, plan_of_tiles());
  census.add(decode_of(64, 64), plan_of_tiles());
  EXPECT_EQ(count(census, "packed entries", "keys"), 1u);
  EXPECT_EQ(count(census, "packed entries", "both"), 1u);
  EXPECT_EQ(count(census, "packed entries", "queries"), 1u);
  EXPECT_EQ(count(census, "packed lengths", "some empty"), 1u);
  EXPECT_EQ(count(census, "packed lengths", "unlike"), 1u);
  EXPECT_EQ(count(census, "packed lengths", "equal"), 1u);
  EXPECT_EQ(count(census, "packed slack rows", "2..3"), 2u);
  EXPECT_EQ(count(census, "lengths and offsets", "int32"), 3u);
}

TEST(Census, CountsKeysInPages) {
  Census census;
  Case c = decode_of(64, 64);
  c.problem.batch = 2;
  for (const auto& [keys, of] :
       {std::pair{48, "of all"}, {33, "of one"}, {47, "of all keys but one"}, {40, "of others"}}) {
    c.problem.key_lengths = std::vector<int64_t>{keys, 5};
    c.problem.paging = Paging{.size = 16, .order = 3, .junk = PageJunk::kLargest, .shared = keys == 48};
    census.add(c, plan_of_tiles());
    EXPECT_EQ(count(census, "the longest ends in a page", of), 1u) << of;
  }
  c.problem.paging = Paging{.size = 1, .spare = 70'000};
  census.add(c, plan_of_tiles());
  census.add(decode_of(64, 64), plan_of_tiles());
  EXPECT_EQ(count(census, "keys in pages", "yes"), 4u);
  EXPECT_EQ(count(census, "keys in pages", "the first shared"), 1u);
  EXPECT_EQ(count(census, "keys of a page", "16"), 4u);
  EXPECT_EQ(count(census, "keys of a page", "1"), 1u);
  EXPECT_EQ(count(census, "page ids", "shuffled"), 4u);
  EXPECT_EQ(count(census, "page ids", "above 2^16"), 1u);
  EXPECT_EQ(count(census, "page ids", "none"), 1u);
  EXPECT_EQ(count(census, "other entries of the table", "largest"), 4u);
}

TEST(Census, CountsValuesAndPairs) {
  Census census;
  Case c = decode_of(1024, 128);
  c.problem.softcap = 17.5f;
  c.problem.scale = -5;
  census.add(c, plan_of_tiles());
  c = decode_of(64, 64);
  c.problem.bias.emplace().broadcast.batch = true;
  census.add(c, plan_of_tiles());
  EXPECT_EQ(census.calls(), 2u);
  EXPECT_EQ(count(census, "keys", "1024..2047"), 1u);
  EXPECT_EQ(count(census, "keys", "64"), 1u);
  EXPECT_EQ(count(census, "key tiles", "9..16"), 1u);
  EXPECT_EQ(count(census, "soft cap", "15..20"), 1u);
  EXPECT_EQ(count(census, "scale", "below -4"), 1u);
  EXPECT_EQ(count(census, "bias has shape", "(1,H,S,S)"), 1u);
  const size_t keys = field("keys"), caps = field("soft cap");
  const size_t many = range("keys", "1024..2047"), cap = range("soft cap", "15..20");
  EXPECT_EQ(census.count(keys, many, caps, cap), 1u);
  EXPECT_EQ(census.count(caps, cap, keys, many), 1u);
  EXPECT_EQ(census.count(keys, range("keys", "64"), caps, cap), 0u);
  EXPECT_EQ(sort(census, "1,024 keys or more"), 1u);
  EXPECT_EQ(sort(census, "and D = 128"), 1u);
  EXPECT_EQ(sort(census, "and D >= 64, nothing hidden"), 1u);
  EXPECT_EQ(sort(census, "and D = 256"), 0u);
}

TEST(Census, CountsSplitsThatGetATileAsHoldingKeys) {
  const Case c = decode_of(640, 64);  // ten tiles
  EXPECT_EQ(splits_that_hold_keys(c, plan_of_tiles(1, 10)), 1);
  EXPECT_EQ(splits_that_hold_keys(c, plan_of_tiles(4, 3)), 4);
  EXPECT_EQ(splits_that_hold_keys(c, plan_of_tiles(40, 1)), 10);
}

TEST(Census, EveryCaseIsInOneRangeOfEachField) {
  Case c;
  for (const float scale : {-std::numeric_limits<float>::max(), -0.0f, 0.0f, 1e-38f, 1.0f, 3e38f}) {
    c.problem.scale = scale;
    for (const int64_t keys : {int64_t{0}, int64_t{1}, int64_t{1} << 31}) {
      c.problem.seq_k = keys;
      for (const CensusField& of : census_fields()) EXPECT_LT(of.of(c, {}), of.ranges.size()) << of.name;
    }
  }
}

TEST(Census, IsAddedUpAndSerialized) {
  Census one, other;
  one.add(decode_of(5000, 256), plan_of_tiles());
  other.add(decode_of(5, 1), plan_of_tiles());
  one.merge(other);
  const Census carried = Census::of_bytes(one.bytes());
  EXPECT_EQ(carried.bytes(), one.bytes());
  EXPECT_EQ(carried.calls(), 2u);
  EXPECT_EQ(count(carried, "keys", "4096..8191"), 1u);
  EXPECT_THROW(Census::of_bytes("too short"), std::runtime_error);
}

TEST(Census, NamesPairsThatNeverCame) {
  Census census;
  for (const auto& [keys, dim] : {std::pair{5000, 1}, {5, 256}})
    census.add(decode_of(keys, dim), plan_of_tiles());
  const std::string words = text(census);
  EXPECT_NE(words.find("census of 2 calls"), std::string::npos);
  EXPECT_NE(words.find("keys 4096..8191 with dim_qk 256"), std::string::npos) << words;
  const Json j = census;
  EXPECT_EQ(j.at("calls"), 2);
  EXPECT_EQ(j.at("fields").at("keys").at("4096..8191"), 1);
  EXPECT_EQ(j.at("pairs").at("keys x dim_qk").size(), census_fields()[field("keys")].ranges.size());
}

}  // namespace
}  // namespace attnfuzz
