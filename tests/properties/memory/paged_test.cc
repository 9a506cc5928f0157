// Tests keys in pages: each key is in the slot that the table names, slots without a key hold NaN, and unused entries
// of the table hold junk.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/packed.h"
#include "properties/data/recipe.h"
#include "reference/numbers/formats.h"
#include "tests/properties/memory/layout_support.h"

namespace attnfuzz {
namespace {

Case paged_case(Paging paging, int32_t index_dtype = ATTN_INDEX_64) {
  Case c = small_case();
  c.problem.batch = 3;
  c.problem.key_lengths = std::vector<int64_t>{100, 0, 3};  // the capacity is 7
  c.problem.paging = paging;
  c.problem.index_dtype = index_dtype;
  tidy(c);
  return c;
}

TEST(Paged, KeysLieInTheSlotsThatTheTableNames) {
  for (const int32_t index : {ATTN_INDEX_64, ATTN_INDEX_32}) {
    for (const int64_t size : {1, 2, 3, 16}) {
      for (const uint64_t order : {0, 5}) {
        Case c = paged_case({.size = size, .order = order, .spare = 2, .beyond = 1}, index);
        c.layout[static_cast<size_t>(TensorId::kBlockTable)].row_gap = 3;
        c.layout[static_cast<size_t>(TensorId::kV)].order = {0, 2, 1};
        ASSERT_EQ(illegal(c), std::nullopt);
        Arena arena;
        const LaidOut laid(c, arena);
        const attn_problem& p = laid.problem();
        const attn_tensor& table = laid.tensors().block_table;
        EXPECT_EQ(p.page_size, size);
        EXPECT_EQ(p.pages, (7 + size - 1) / size + (3 + size - 1) / size + 2);
        EXPECT_EQ(p.pages_per_seq, (7 + size - 1) / size + 1);
        EXPECT_EQ(table.stride[0], p.pages_per_seq + 3);
        EXPECT_EQ(p.features & (ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32),
                  ATTN_FEATURE_PAGED | (index == ATTN_INDEX_32 ? ATTN_FEATURE_INDEX32 : 0));
        const Sequences sequences(p, laid.tensors());
        const PackedCase places(c.problem);
        for (const TensorId t : {TensorId::kK, TensorId::kV}) {
          std::set<std::pair<int64_t, int64_t>> used;
          for (const auto& [b, keys] : {std::pair{0, 7}, {1, 0}, {2, 3}}) {
            for (int64_t j = 0; j < keys; ++j) {
              const StoredRow at = sequences.key_row(b, j);
              EXPECT_TRUE(used.emplace(at.entry, at.row).second);
              EXPECT_EQ(places.owner(t, at), (StoredRow{b, j}));
              const double got = decode(c.problem.dtype, element(laid, c.problem, t, at.entry, 1, at.row, 2), 0);
              EXPECT_EQ(got, value_at(c, t, b, 1, j, 2)) << name_of(t) << " " << b << " " << j;
            }
          }
          for (int64_t page = 0; page < p.pages; ++page) {
            for (int64_t slot = 0; slot < size; ++slot) {
              if (used.contains({page, slot})) continue;
              EXPECT_EQ(places.owner(t, {page, slot}), std::nullopt);
              EXPECT_TRUE(std::isnan(decode(c.problem.dtype, element(laid, c.problem, t, page, 0, slot, 0), 0)));
            }
          }
        }
      }
    }
  }
}

// All entries begin with the same pages, whose keys have the values of entry 0. The longest entry fills them.
TEST(Paged, EntriesShareTheirFirstPages) {
  for (const uint64_t order : {0, 5}) {
    Case c = paged_case({.size = 2, .order = order, .spare = 1, .beyond = 1, .shared = 2});
    c.problem.key_lengths = std::vector<int64_t>{3, 0, 7};
    c.planted = {{TensorId::kK, 0, 1, 2, 2, 0x7c00},
                 {TensorId::kK, 2, 1, 0, 2, 0x7c00},
                 {TensorId::kV, 2, 1, 6, 2, 0x7c00}};
    tidy(c);
    ASSERT_EQ(illegal(c), std::nullopt);
    Arena arena;
    const LaidOut laid(c, arena);
    EXPECT_EQ(laid.problem().pages, 5);  // 2 shared pages, 2 pages of only the last entry, a spare one
    const Sequences sequences(laid.problem(), laid.tensors());
    const PackedCase places(c.problem);
    std::set<std::pair<int64_t, int64_t>> used;
    for (int64_t j = 0; j < 7; ++j) {
      const StoredRow at = sequences.key_row(2, j);
      EXPECT_TRUE(used.emplace(at.entry, at.row).second);
      if (j < 3) EXPECT_EQ(sequences.key_row(0, j), at);
      EXPECT_EQ(places.owner(TensorId::kK, at), (StoredRow{2, j}));
      for (const TensorId t : {TensorId::kK, TensorId::kV}) {
        const double got = decode(c.problem.dtype, element(laid, c.problem, t, at.entry, 1, at.row, 2), 0);
        EXPECT_EQ(got, value_at(c, t, 2, 1, j, 2)) << name_of(t) << " " << j;
        if (j < 3) EXPECT_EQ(got, value_at(c, t, 0, 1, j, 2));
        // Values that are planted in another entry are not in a shared page.
        EXPECT_EQ(std::isinf(got), (t == TensorId::kK && j == 2) || (t == TensorId::kV && j == 6));
        Case dense = c;
        dense.problem.paging.reset();
        dense.planted.clear();
        if (j < 4 && !std::isinf(got)) EXPECT_EQ(got, value_at(dense, t, 0, 1, j, 2));
        dense.remap.shared_keys = 4;
        if (!std::isinf(got)) EXPECT_EQ(got, value_at(dense, t, 2, 1, j, 2));
      }
    }
  }
}

TEST(Paged, UnusedEntriesOfTheTableHoldJunk) {
  const auto last = [](PageJunk junk, int64_t spare) {
    const Pages pages(paged_case({.size = 2, .order = 9, .spare = spare, .beyond = 1, .junk = junk}).problem);
    EXPECT_EQ(pages.row(0).size(), 5u);
    return pages.row(1).back();
  };
  EXPECT_EQ(last(PageJunk::kFirst, 0), 0);
  EXPECT_EQ(last(PageJunk::kMinusOne, 0), -1);
  EXPECT_EQ(last(PageJunk::kLargest, 0), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(last(PageJunk::kSpare, 0), -1);
  const Pages pages(paged_case({.size = 2, .order = 9, .spare = 3}).problem);
  EXPECT_EQ(pages.owner({last(PageJunk::kSpare, 3), 0}), std::nullopt);
  EXPECT_LT(last(PageJunk::kAnother, 3), pages.count());
  EXPECT_GE(last(PageJunk::kAnother, 3), 0);
}

TEST(Paged, NumbersInUnusedSlots) {
  const Case c = paged_case({.size = 4, .spare = 1, .numbers = true});
  Arena arena;
  const LaidOut laid(c, arena);
  EXPECT_TRUE(std::isfinite(decode(c.problem.dtype, element(laid, c.problem, TensorId::kK, 3, 0, 1, 0), 0)));
}

// Without keys and spare pages there is no page, only redzones.
TEST(Paged, AWriteBesideAPoolWithoutPagesIsNamed) {
  Case c = paged_case({.size = 4});
  c.problem.key_lengths = std::vector<int64_t>{0, -1, 0};
  ASSERT_EQ(illegal(c), std::nullopt);
  Arena arena;
  LaidOut laid(c, arena);
  ASSERT_EQ(laid.problem().pages, 0);
  laid.before_call({});
  for (const MemoryRange& range : laid.ranges()) {
    if (range.tensor != TensorId::kK) continue;
    std::byte& past = arena.base()[range.end - 1];
    past ^= std::byte{1};
    const auto fault = laid.check_memory(/*outputs=*/false);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind, MemoryFault::Kind::kRedzone);
    EXPECT_NE(fault->message.find("past the end of k was written"), std::string::npos) << fault->message;
    past ^= std::byte{1};
  }
}

TEST(Paged, NeedsKeyLengths) {
  Case c = paged_case({});
  c.problem.key_lengths.reset();
  EXPECT_NE(illegal(c).value_or(""), "");
  tidy(c);
  EXPECT_FALSE(c.problem.paging.has_value());
  EXPECT_EQ(illegal(c), std::nullopt);
  c = paged_case({.size = 0});
  EXPECT_EQ(c.problem.paging->size, 1);
  c.problem.paging->size = 0;
  EXPECT_NE(illegal(c).value_or(""), "");
  c = paged_case({});
  unpack(c);
  EXPECT_FALSE(c.problem.paging.has_value());
}

}  // namespace
}  // namespace attnfuzz
