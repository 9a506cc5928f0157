// Tests states: they are laid out like inputs, restored before each call, read as bits, and compared as a whole.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "properties/case/features/shrink_toggles.h"
#include "properties/data/fills.h"
#include "properties/operations/operation.h"
#include "reference/numbers/formats.h"
#include "tests/properties/memory/layout_support.h"

namespace attnfuzz {
namespace {

using enum TensorId;

// Caches with room for 5 keys: two entries with 3 and 0 keys, and two new rows for each.
Case append_case(bool paged) {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_APPEND;
  p.batch = 2, p.heads_q = p.heads_kv = 2, p.seq_q = 2, p.seq_k = 5, p.dim_qk = 4, p.dim_v = 3;
  p.key_lengths = {3, 0};
  if (paged) p.paging = Paging{.size = 2, .order = 3, .spare = 1};
  c.k = {.kind = FillKind::kPosition};
  c.nan_beyond_lengths = !paged;
  tidy(c);
  return c;
}

double value(const Case& c, const void* at) { return decode(c.problem.dtype, at, 0); }

TEST(State, HoldsKeysAndNothingBehindThem) {
  for (const bool paged : {false, true}) {
    const Case c = append_case(paged);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
    Arena arena;
    const LaidOut laid(c, arena);
    EXPECT_EQ(laid.tensors().q.data, nullptr);
    const Sequences sequences(laid.problem(), laid.tensors());
    std::vector<uint16_t> due(4);
    for (int64_t j = 0; j < 5; ++j) {
      const StoredRow at = sequences.key_row(0, j);
      fill_row(c.k, c.problem.dtype, 0, 1, j, 4, due.data());
      const double got = value(c, element(laid, c.problem, kCacheK, at.entry, 1, at.row, 2));
      if (j < 3)
        EXPECT_EQ(got, value(c, &due[2])) << j;
      else
        EXPECT_TRUE(std::isnan(got)) << j;
      if (j >= 3) EXPECT_EQ(value(c, element(laid, c.problem, kKNew, 0, 1, j - 3, 2)), value(c, &due[2])) << j;
    }
    EXPECT_EQ(laid.problem().pages, paged ? 3 + 1 + 1 : 0) << "pages for the new rows, too";
  }
}

TEST(State, IsRestoredBeforeACallAndGivenAsItWas) {
  Case c = append_case(false);
  c.layout[static_cast<size_t>(kCacheK)].row_gap = 3;
  c.layout[static_cast<size_t>(kCacheV)].backwards = 8;
  Arena arena;
  LaidOut laid(c, arena);
  const std::vector<int64_t> before = laid.read_integers(kCacheK);
  const uint64_t digest = laid.digests()[static_cast<size_t>(kCacheK)];
  EXPECT_NE(digest, 0u);
  laid.before_call({});
  auto* at = reinterpret_cast<uint16_t*>(element(laid, c.problem, kCacheK, 1, 1, 4, 3));
  *at = 0x3c00;
  EXPECT_EQ(laid.read_integers(kCacheK).back(), 0x3c00) << "bits, zero-extended";
  EXPECT_EQ(laid.check_memory(), std::nullopt) << "a call may write a state";
  ASSERT_TRUE(laid.check_planned().has_value());
  EXPECT_EQ(laid.check_planned()->kind, MemoryFault::Kind::kTooEarly) << "plan() may not";
  const attn_tensor given = laid.given().k;
  EXPECT_EQ(static_cast<const uint16_t*>(given.data)[before.size() - 1], before.back());
  EXPECT_EQ(laid.digests()[static_cast<size_t>(kCacheK)], digest);
  laid.before_call({});
  EXPECT_EQ(laid.read_integers(kCacheK), before);
  EXPECT_EQ(laid.check_planned(), std::nullopt);
}

// Integers of 32 bits are read as signed numbers, not as bits like a state.
TEST(Integers, KeepTheirSign) {
  for (const int32_t index : {ATTN_INDEX_32, ATTN_INDEX_64}) {
    Case c;
    Problem& p = c.problem;
    p.features = ATTN_FEATURE_NSA_SELECT;
    p.seq_k = 4;
    p.selection.select = 2;
    p.index_dtype = index;
    c.q = c.k = c.v = Fill{};
    tidy(c);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
    Arena arena;
    LaidOut laid(c, arena);
    laid.before_call({});
    for (const auto& [d, value] : {std::pair<int64_t, int64_t>{0, 3}, {1, -1}}) {
      std::byte* at = element(laid, p, kChosen, 0, 0, 0, d);
      std::memcpy(at, &value, index == ATTN_INDEX_32 ? 4 : 8);  // little-endian
    }
    EXPECT_EQ(laid.read_integers(kChosen), (std::vector<int64_t>{3, -1}));
    EXPECT_EQ(laid.check_memory(), std::nullopt);
  }
}

TEST(State, ItsGapsAndRedzonesStay) {
  Case c = append_case(false);
  c.layout[static_cast<size_t>(kCacheK)].row_gap = 3;
  Arena arena;
  LaidOut laid(c, arena);
  laid.before_call({});
  auto* at = reinterpret_cast<uint16_t*>(element(laid, c.problem, kCacheK, 0, 0, 0, 3)) + 1;
  const uint16_t was = *at;
  *at = 1;
  ASSERT_TRUE(laid.check_memory().has_value());
  EXPECT_EQ(laid.check_memory()->kind, MemoryFault::Kind::kGap);
  *at = was;
  EXPECT_EQ(laid.check_memory(), std::nullopt);
  *(reinterpret_cast<uint16_t*>(element(laid, c.problem, kKNew, 0, 0, 0, 0))) ^= 1;
  ASSERT_TRUE(laid.check_memory().has_value());
  EXPECT_EQ(laid.check_memory()->kind, MemoryFault::Kind::kInputChanged);
}

}  // namespace
}  // namespace attnfuzz
