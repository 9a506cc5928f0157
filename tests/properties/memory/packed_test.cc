// Tests packed batch entries in memory: each entry has its values, and rows of no entry hold NaN and stay unchanged.
#include "properties/case/places/packed.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/case/features/shrink_toggles.h"
#include "properties/data/recipe.h"
#include "reference/numbers/formats.h"
#include "tests/properties/memory/layout_support.h"

namespace attnfuzz {
namespace {

Case packed_case(int32_t index_dtype) {
  Case c = small_case();
  c.problem.batch = 3;
  c.problem.key_lengths = std::vector<int64_t>{7, 3, 2};
  c.problem.packed_q = Packing{{2, 0, 5}, 2, false};
  c.problem.packed_k = Packing{{7, 4, 0}, 3, false};
  c.problem.index_dtype = index_dtype;
  c.nan_beyond_lengths = true;
  tidy(c);
  return c;
}

// The address of element d of a stored row.
std::byte* stored(const LaidOut& laid, const Case& c, TensorId t, int64_t h, int64_t row, int64_t d) {
  return element(laid, c.problem, t, 0, h, row, d);
}

TEST(Packed, EntriesHoldTheValuesOfTheirPlaces) {
  for (const int32_t index : {ATTN_INDEX_64, ATTN_INDEX_32}) {
    const Case c = packed_case(index);
    ASSERT_EQ(illegal(c), std::nullopt);
    Arena arena;
    const LaidOut laid(c, arena);
    const attn_problem& p = laid.problem();
    EXPECT_EQ(p.ragged, 3);
    EXPECT_EQ(p.total_q, 9);
    EXPECT_EQ(p.total_k, 14);
    EXPECT_EQ(p.index_dtype, index);
    EXPECT_EQ(p.features & (ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32),
              ATTN_FEATURE_RAGGED | (index == ATTN_INDEX_32 ? ATTN_FEATURE_INDEX32 : 0));
    const Sequences sequences(p, laid.tensors());
    const int64_t due_q[] = {0, 2, 2, 7}, due_k[] = {0, 7, 11, 11}, lengths[] = {7, 3, 2};
    for (int64_t b = 0; b < 4; ++b) {
      EXPECT_EQ(index_at(index, laid.tensors().cu_q, b), due_q[b]);
      EXPECT_EQ(index_at(index, laid.tensors().cu_k, b), due_k[b]);
      if (b < 3) EXPECT_EQ(index_at(index, laid.tensors().key_lengths, b), lengths[b]);
    }
    for (const TensorId t : {TensorId::kQ, TensorId::kK, TensorId::kV}) {
      const bool queries = t == TensorId::kQ;
      const EntryRows& side = queries ? sequences.queries : sequences.keys;
      const auto [entries, heads, rows, columns] = stored_size(c.problem, t);
      EXPECT_EQ(entries, 1);
      EXPECT_EQ(rows, queries ? 9 : 14);
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t row = 0; row < rows; ++row) {
          const auto place = side.owner({0, row});
          for (int64_t d = 0; d < columns; ++d) {
            const double got = decode(c.problem.dtype, stored(laid, c, t, h, row, d), 0);
            if (!place) {
              EXPECT_TRUE(std::isnan(got)) << name_of(t) << " " << row;
              continue;
            }
            const double due = value_at(c, t, place->entry, h, place->row, d);
            EXPECT_TRUE(got == due || (std::isnan(got) && std::isnan(due))) << name_of(t) << " " << row;
          }
        }
      }
    }
  }
}

// Writes zeros to all rows of O and LSE that belong to an entry.
void write_owned(const LaidOut& laid, const Case& c) {
  for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
    const auto size = stored_size(c.problem, t);
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t row = 0; row < 7; ++row) {
        for (int64_t d = 0; d < size[3]; ++d)
          std::memset(stored(laid, c, t, h, row, d), 0, static_cast<size_t>(element_bytes(c.problem, t)));
      }
    }
  }
}

std::optional<MemoryFault> after_packed(const std::function<void(const LaidOut&, const Case&)>& act) {
  const Case c = packed_case(ATTN_INDEX_64);
  Arena arena;
  LaidOut laid(c, arena);
  laid.give_workspace(100, 16);
  laid.before_call(c.calls[0]);
  write_owned(laid, c);
  act(laid, c);
  return laid.check_memory();
}

TEST(Packed, OnlyRowsOfEntriesCount) {
  Problem p;
  p.batch = 3, p.heads_q = 2, p.seq_q = 7;
  EXPECT_EQ(rows_present(p), 42);
  p.packed_q = Packing{.lengths = {7, 0, 100}, .slack = 4};
  EXPECT_EQ(rows_present(p), 28);
}

TEST(Packed, RowsOfNoEntryNeedNotBeWritten) {
  EXPECT_FALSE(after_packed([](const LaidOut&, const Case&) {}).has_value());
}

TEST(Packed, RowsOfNoEntryMustNotBeWritten) {
  for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
    for (const int64_t row : {7, 8}) {
      const auto fault = after_packed([&](const LaidOut& laid, const Case& c) { *stored(laid, c, t, 3, row, 0) = {}; });
      ASSERT_TRUE(fault.has_value()) << name_of(t) << " " << row;
      EXPECT_EQ(fault->kind, MemoryFault::Kind::kGap);
      EXPECT_EQ(fault->message,
                "row " + std::to_string(row) + " of " + name_of(t) + ", behind the last batch entry, was written");
      EXPECT_EQ(fault->index, (std::array<int64_t, 4>{2, 3, 4, 0})) << "the row before it";
    }
  }
}

TEST(Packed, AnUnwrittenRowIsNamedByItsEntry) {
  const auto fault = after_packed([](const LaidOut& laid, const Case& c) {
    std::memset(stored(laid, c, TensorId::kO, 1, 4, 2), 0xa5, 1);
    const uint16_t never = kNeverWritten & 0xffff;
    std::memcpy(stored(laid, c, TensorId::kO, 1, 4, 2), &never, 2);
  });
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, MemoryFault::Kind::kUnwritten);
  EXPECT_EQ(fault->index, (std::array<int64_t, 4>{2, 1, 2, 2}));
}

TEST(Packed, ResultsAreReadByTheirPlaces) {
  const Case c = packed_case(ATTN_INDEX_64);
  Arena arena;
  LaidOut laid(c, arena);
  laid.give_workspace(100, 16);
  laid.before_call(c.calls[0]);
  write_owned(laid, c);
  const float mark = 3;
  std::memcpy(stored(laid, c, TensorId::kLse, 2, 6, 0), &mark, sizeof mark);
  const std::vector<float> lse = laid.read(TensorId::kLse);
  ASSERT_EQ(lse.size(), 3u * 4 * 5);
  for (size_t row = 0; row < lse.size(); ++row)
    EXPECT_EQ(lse[row], row == (2 * 4 + 2) * 5 + 4 ? mark : 0.0f) << row;
}

}  // namespace
}  // namespace attnfuzz
