// Tests the oracle of appends and copied pages: the elements that are written, their bits, and that all others
// stay.
#include "reference/caches.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace attnfuzz {
namespace {

using enum TensorId;

// Caches of 16-bit elements that are all different, and new rows that differ from them.
struct Caches {
  attn_problem p = {};
  std::vector<uint16_t> k, v, k_new, v_new;
  std::vector<int32_t> lengths, table, pairs, borders;

  Caches(int64_t stores, int64_t slots, int64_t entries, int64_t rows) {
    p.size = sizeof p;
    p.dtype = ATTN_F16;
    p.batch = entries;
    p.heads_q = p.heads_kv = 2;
    p.dim_qk = 3, p.dim_v = 2;
    p.seq_q = rows;
    p.index_dtype = ATTN_INDEX_32;
    p.features = ATTN_FEATURE_APPEND | ATTN_FEATURE_INDEX32;
    fill(k, stores * 2 * slots * 3, 0), fill(v, stores * 2 * slots * 2, 0x1000);
    fill(k_new, entries * 2 * rows * 3, 0x4000), fill(v_new, entries * 2 * rows * 2, 0x5000);
  }
  static void fill(std::vector<uint16_t>& to, int64_t elements, int from) {
    to.resize(static_cast<size_t>(elements));
    std::iota(to.begin(), to.end(), static_cast<uint16_t>(from));
  }
  attn_tensors tensors() {
    attn_tensors t = {};
    t.size = sizeof t;
    const int64_t slots = p.page_size != 0 ? p.page_size : p.seq_k;
    t.k = {k.data(), {2 * slots * 3, slots * 3, 3, 1}}, t.v = {v.data(), {2 * slots * 2, slots * 2, 2, 1}};
    const int64_t rows = (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? p.total_q : p.seq_q;
    t.k_new = {k_new.data(), {2 * rows * 3, rows * 3, 3, 1}}, t.v_new = {v_new.data(), {2 * rows * 2, rows * 2, 2, 1}};
    t.key_lengths = reinterpret_cast<const int64_t*>(lengths.data());
    t.cu_q = borders.data();
    t.block_table = {table.data(), {p.pages_per_seq, 1, 1, 1}};
    t.copies = {pairs.data(), {2, 1, 1, 1}};
    return t;
  }
};

// The number of elements of `due` that differ from the cache's old content.
int changed(const Expected& due, const std::vector<uint16_t>& before) {
  int count = 0;
  EXPECT_EQ(due.integer.size(), before.size());
  for (size_t n = 0; n < before.size(); ++n) count += due.integer[n] != before[n];
  return count;
}

TEST(Caches, NewRowsAreWrittenBehindTheLength) {
  Caches c(2, 5, 2, 2);
  c.p.seq_k = 5, c.p.has_key_lengths = 1;
  c.lengths = {1, 4};  // one row of the second entry fits
  const Reference due = evaluate_append(c.p, c.tensors());
  EXPECT_EQ(due.rows, 2 * 2 * 2);
  const auto k_at = [&](int64_t b, int64_t h, int64_t j) { return due[kCacheK].integer[((b * 2 + h) * 5 + j) * 3]; };
  EXPECT_EQ(k_at(0, 0, 1), c.k_new[0]);
  EXPECT_EQ(k_at(0, 0, 2), c.k_new[3]);
  EXPECT_EQ(k_at(0, 1, 1), c.k_new[6]);
  EXPECT_EQ(k_at(1, 0, 4), c.k_new[12]);
  EXPECT_EQ(changed(due[kCacheK], c.k), 3 * 2 * (2 + 1));
  EXPECT_EQ(changed(due[kCacheV], c.v), 2 * 2 * (2 + 1));
  c.lengths = {9, -3};  // beyond the capacity, and negative
  const Reference clamped = evaluate_append(c.p, c.tensors());
  EXPECT_EQ(changed(clamped[kCacheV], c.v), 2 * 2 * 2);
  EXPECT_EQ(clamped[kCacheV].integer[2 * 5 * 2], c.v_new[2 * 2 * 2]) << "the first key of the second entry";
}

TEST(Caches, PackedRowsGoIntoTheirPages) {
  Caches c(5, 2, 2, 3);
  c.p.features |= ATTN_FEATURE_PAGED | ATTN_FEATURE_RAGGED;
  c.p.seq_k = 5, c.p.has_key_lengths = 1, c.p.page_size = 2, c.p.pages = 5, c.p.pages_per_seq = 3;
  c.p.ragged = ATTN_RAGGED_QUERIES, c.p.total_q = 4;
  c.borders = {0, 3, 3};
  c.lengths = {1, 2};
  c.table = {4, 1, 99, -1, -1, -1};
  const Reference due = evaluate_append(c.p, c.tensors());
  const auto k_at = [&](int64_t page, int64_t slot) { return due[kCacheK].integer[(page * 2 * 2 + slot) * 3]; };
  EXPECT_EQ(k_at(4, 1), c.k_new[0]);
  EXPECT_EQ(k_at(1, 0), c.k_new[3]);
  EXPECT_EQ(k_at(1, 1), c.k_new[6]);
  EXPECT_EQ(changed(due[kCacheK], c.k), 3 * 2 * 3);
  EXPECT_EQ(due.state[0], RowState::kBounded);
  EXPECT_EQ(due.state.back(), RowState::kAbsent) << "the second entry has no new row";
}

TEST(Caches, PagesAreCopiedWhole) {
  Caches c(4, 3, 2, 1);
  c.p.features = ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32;
  c.p.page_size = 3, c.p.pages = 4;
  c.pairs = {0, 3, 1, 1};
  const Reference due = evaluate_copies(c.p, c.tensors());
  for (int64_t n = 0; n < 2 * 3 * 3; ++n) EXPECT_EQ(due[kCacheK].integer[3 * 2 * 3 * 3 + n], c.k[n]);
  EXPECT_EQ(changed(due[kCacheK], c.k), 2 * 3 * 3);
  EXPECT_EQ(changed(due[kCacheV], c.v), 2 * 3 * 2);
}

// K and V differ in sizes, strides and contents, so a mix-up of the two shows.
TEST(Caches, ValuesAreNotKeys) {
  Caches c(1, 4, 1, 1);
  c.p.seq_k = 4, c.p.has_key_lengths = 1;
  c.lengths = {2};
  const Reference due = evaluate_append(c.p, c.tensors());
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t d = 0; d < 3; ++d) EXPECT_EQ(due[kCacheK].integer[(h * 4 + 2) * 3 + d], c.k_new[h * 3 + d]);
    for (int64_t d = 0; d < 2; ++d) EXPECT_EQ(due[kCacheV].integer[(h * 4 + 2) * 2 + d], c.v_new[h * 2 + d]);
  }
  EXPECT_EQ(due[kCacheK].columns, 3);
  EXPECT_EQ(due[kCacheV].columns, 2);
  Caches pages(3, 2, 1, 1);
  pages.p.features = ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_PAGED | ATTN_FEATURE_INDEX32;
  pages.p.page_size = 2, pages.p.pages = 3;
  pages.pairs = {0, 2};
  const Reference copied = evaluate_copies(pages.p, pages.tensors());
  for (int64_t n = 0; n < 2 * 2 * 3; ++n) EXPECT_EQ(copied[kCacheK].integer[2 * 2 * 2 * 3 + n], pages.k[n]);
  for (int64_t n = 0; n < 2 * 2 * 2; ++n) EXPECT_EQ(copied[kCacheV].integer[2 * 2 * 2 * 2 + n], pages.v[n]);
}

TEST(Caches, OtherProblemsAreRefused) {
  Caches c(1, 1, 1, 1);
  c.p.seq_k = 1, c.p.has_key_lengths = 1, c.lengths = {0};
  EXPECT_NO_THROW(evaluate_append(c.p, c.tensors()));
  c.p.features = ATTN_FEATURE_APPEND | ATTN_FEATURE_SINK;
  EXPECT_THROW(evaluate_append(c.p, c.tensors()), UnknownFeatures);
  c.p.features = ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_RAGGED;
  EXPECT_THROW(evaluate_copies(c.p, c.tensors()), UnknownFeatures);
}

}  // namespace
}  // namespace attnfuzz
