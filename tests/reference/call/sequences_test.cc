// Tests packed batch entries (ATTN_FEATURE_RAGGED): the places of their rows, and the oracle against each entry
// as a dense problem.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/call/sequences.h"
#include "reference/rows/visibility.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

TEST(Sequences, OfDenseTensorsLieAtTheirIndices) {
  const EntryRows side(3, 5);
  EXPECT_FALSE(side.packed());
  EXPECT_EQ(side.length(2), 5);
  EXPECT_EQ(side.at(2, 4), (StoredRow{2, 4}));
  EXPECT_EQ(side.owner({2, 4}), (StoredRow{2, 4}));
}

TEST(Sequences, OfPackedTensorsLieOneBehindTheOther) {
  const int64_t wide[] = {0, 0, 3, 3, 4, 4};
  const int32_t narrow[] = {0, 0, 3, 3, 4, 4};
  for (const EntryRows& side : {EntryRows(5, wide, ATTN_INDEX_64), EntryRows(5, narrow, ATTN_INDEX_32)}) {
    EXPECT_TRUE(side.packed());
    const int64_t lengths[] = {0, 3, 0, 1, 0};
    int64_t row = 0;
    for (int64_t b = 0; b < 5; ++b) {
      ASSERT_EQ(side.length(b), lengths[b]);
      for (int64_t i = 0; i < lengths[b]; ++i, ++row) {
        EXPECT_EQ(side.at(b, i), (StoredRow{0, row}));
        EXPECT_EQ(side.owner({0, row}), (StoredRow{b, i}));
      }
    }
    EXPECT_EQ(side.owned(), 4);
    EXPECT_EQ(side.owner({0, 4}), std::nullopt);
    EXPECT_EQ(side.owner({0, 100}), std::nullopt);
  }
  const int64_t none[] = {0};
  EXPECT_EQ(EntryRows(0, none, ATTN_INDEX_64).owner({0, 0}), std::nullopt);
}

TEST(Sequences, InPagesLieWhereTheTableSays) {
  const int64_t wide[] = {7, 5, -1, 2};
  const int32_t narrow[] = {7, 5, -1, 2};
  for (const int32_t index : {ATTN_INDEX_64, ATTN_INDEX_32}) {
    const void* table = index == ATTN_INDEX_64 ? static_cast<const void*>(wide) : narrow;
    const EntryRows side = EntryRows::in_pages(2, 6, table, 3, 3, index);
    EXPECT_FALSE(side.packed());
    EXPECT_EQ(side.length(1), 6);
    EXPECT_EQ(side.at(0, 2), (StoredRow{7, 2}));
    EXPECT_EQ(side.at(0, 3), (StoredRow{5, 0}));
    EXPECT_EQ(side.at(1, 1), (StoredRow{2, 1}));
  }
}

// The oracle gives the same result for keys in pages and in dense tensors.
TEST(Sequences, ThePagedOracleEqualsADenseOne) {
  Case c({.heads_q = 2, .seq_q = 5, .seq_k = 33, .causal = true, .align = ATTN_BOTTOM_RIGHT});
  c.fill(Regime::kGaussian, 3);
  const int32_t length = 29, page = 8;
  attn_problem p = c.problem;
  p.has_key_lengths = 1, p.index_dtype = ATTN_INDEX_32, p.features |= ATTN_FEATURE_INDEX32;
  attn_tensors t = c.tensors();
  t.key_lengths = reinterpret_cast<const int64_t*>(&length);
  const Reference dense = evaluate(p, t, c.plan, documented());
  const int32_t table[] = {4, 0, 2, 1, std::numeric_limits<int32_t>::max()};
  const auto pooled = [&](const attn_tensor& from, int64_t dim) {
    std::vector<uint16_t> pool(static_cast<size_t>(5 * page * dim), 0x7e00);
    for (int64_t j = 0; j < length; ++j)
      std::copy_n(static_cast<uint16_t*>(from.data) + j * from.stride[2], dim,
                  &pool[static_cast<size_t>((table[j / page] * page + j % page) * dim)]);
    return pool;
  };
  std::vector<uint16_t> k = pooled(t.k, p.dim_qk), v = pooled(t.v, p.dim_v);
  p.features |= ATTN_FEATURE_PAGED;
  p.page_size = page, p.pages = 5, p.pages_per_seq = 5;
  t.k = {k.data(), {page * p.dim_qk, 0, p.dim_qk, 1}};
  t.v = {v.data(), {page * p.dim_v, 0, p.dim_v, 1}};
  t.block_table = {const_cast<int32_t*>(table), {5, 1, 1, 1}};
  const Reference paged = evaluate(p, t, c.plan, documented());
  for (const TensorId id : {TensorId::kO, TensorId::kLse}) {
    EXPECT_EQ(paged[id].value, dense[id].value);
    EXPECT_EQ(paged[id].bound, dense[id].bound);
  }
}

// Two entries are packed. Each alone is a dense problem with the same bytes.
struct Packed {
  explicit Packed(const Shape& shape) : c(shape), problem(c.problem) {
    c.fill(Regime::kGaussian, 3);
    problem.batch = 2;
    problem.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
    problem.ragged = ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS;
    problem.index_dtype = ATTN_INDEX_32;
    problem.total_q = c.problem.seq_q, problem.total_k = c.problem.seq_k;
    problem.seq_q = 9, problem.seq_k = 40;  // no entry is so long
  }
  attn_tensors tensors() {
    attn_tensors t = c.tensors();
    t.cu_q = cu_q, t.cu_k = cu_k;
    return t;
  }
  // Entry b as a dense call.
  attn_problem alone(int64_t b, attn_tensors* t) const {
    attn_problem p = c.problem;
    p.seq_q = cu_q[b + 1] - cu_q[b], p.seq_k = cu_k[b + 1] - cu_k[b];
    t->q.data = static_cast<uint16_t*>(t->q.data) + cu_q[b] * t->q.stride[2];
    t->k.data = static_cast<uint16_t*>(t->k.data) + cu_k[b] * t->k.stride[2];
    t->v.data = static_cast<uint16_t*>(t->v.data) + cu_k[b] * t->v.stride[2];
    return p;
  }

  Case c;
  attn_problem problem;
  int32_t cu_q[3] = {0, 3, 8}, cu_k[3] = {0, 25, 32};
};

bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

TEST(Sequences, ThePackedOracleEqualsOneForEachEntry) {
  for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
    Packed s({.heads_q = 2, .seq_q = 10, .seq_k = 33, .causal = true, .align = align, .window_left = 6});
    const attn_tensors all = s.tensors();
    const Reference packed = evaluate(s.problem, all, s.c.plan, documented());
    EXPECT_EQ(packed.rows, 2 * 2 * 9);
    EXPECT_EQ(packed.sampled, 2 * 8);
    for (int64_t b = 0; b < 2; ++b) {
      attn_tensors t = all;
      const attn_problem p = s.alone(b, &t);
      const Reference alone = evaluate(p, t, s.c.plan, documented());
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 0; i < 9; ++i) {
          const auto row = static_cast<size_t>(RowSpace(s.problem).of(b, h, i));
          if (i >= p.seq_q) {
            EXPECT_EQ(packed.state[row], RowState::kAbsent);
            EXPECT_EQ(packed[TensorId::kLse].rule[row], static_cast<uint8_t>(Due::kAnything));
            continue;
          }
          const auto of = static_cast<size_t>(RowSpace(p).of(0, h, i));
          EXPECT_EQ(packed.state[row], alone.state[of]);
          for (const TensorId id : {TensorId::kO, TensorId::kLse}) {
            const Expected &x = packed[id], &y = alone[id];
            for (int64_t n = 0; n < x.columns; ++n) {
              const auto at_x = row * static_cast<size_t>(x.columns) + static_cast<size_t>(n);
              const auto at_y = of * static_cast<size_t>(x.columns) + static_cast<size_t>(n);
              EXPECT_TRUE(same(x.value[at_x], y.value[at_y])) << b << " " << h << " " << i << " " << n;
              EXPECT_TRUE(same(x.bound[at_x], y.bound[at_y])) << b << " " << h << " " << i << " " << n;
            }
          }
        }
      }
    }
  }
}

TEST(Sequences, KeyLengthsShortenPackedEntries) {
  Packed s({.seq_q = 10, .seq_k = 33});
  const int32_t lengths[] = {-4, 1000};
  s.problem.has_key_lengths = 1;
  attn_tensors t = s.tensors();
  t.key_lengths = reinterpret_cast<const int64_t*>(lengths);
  EXPECT_EQ(key_length(s.problem, t, 0), 0);
  EXPECT_EQ(key_length(s.problem, t, 1), 7);
  EXPECT_EQ(lengths_of(s.problem, t, 1).queries, 5);
  EXPECT_EQ(evaluate(s.problem, t, s.c.plan, documented()).dead, 3);
}

// Rows of other entries, and rows of no entry, do not change an entry's result.
TEST(Sequences, ReadNoRowsOfOthers) {
  Packed s({.seq_q = 10, .seq_k = 33});
  const Reference before = evaluate(s.problem, s.tensors(), s.c.plan, documented());
  const uint16_t nan = 0x7e00;
  for (int64_t i = 8; i < 10; ++i) s.c.q[static_cast<size_t>(i * 16)] = nan;
  s.c.k[32 * 16] = s.c.v[32 * 16] = nan;
  s.c.k[0] = s.c.v[0] = nan;  // of entry 0
  const Reference after = evaluate(s.problem, s.tensors(), s.c.plan, documented());
  for (int64_t i = 0; i < 5; ++i) {
    const auto row = static_cast<size_t>(RowSpace(s.problem).of(1, 0, i));
    EXPECT_EQ(after.state[row], RowState::kBounded);
    EXPECT_TRUE(same(after[TensorId::kLse].value[row], before[TensorId::kLse].value[row]));
  }
  EXPECT_EQ(after.state[0], RowState::kNaN);
}

}  // namespace
}  // namespace attnfuzz
