// Maps the rows of batch entries to their places in memory.
//
// Results, masks and biases name a query by its batch entry and its place there: (b, i). In a dense
// tensor these are also its indices in memory. Packed entries (ATTN_FEATURE_RAGGED) lie one after
// another in a tensor with one batch entry. Keys in pages (ATTN_FEATURE_PAGED) lie in slots of
// the pages that the block table names. All code that reads a row of Q, K or V, or needs the number
// of rows of an entry, uses this class.
//
//   const Sequences sequences(problem, host);           // reads cu_q, cu_k and block_table where they are given
//   const StoredRow at = sequences.query_row(b, i);     // {b, i}, or {0, cu_q[b] + i}
//   decode(dtype, q.data, offset_of(q, at.entry, h, at.row, t));
//   sequences.queries.owner(at)                         // {b, i}; nothing for a row of no entry
//
// It holds pointers to the arrays and no copies, so making one is cheap.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "kernels/attention.h"

namespace attnfuzz {

// A row of a tensor: its index in the first dimension, and its index in the third.
struct StoredRow {
  int64_t entry, row;
  bool operator==(const StoredRow&) const = default;
};

// Number n of an array of lengths or offsets, in host memory, of any alignment.
inline int64_t index_at(int32_t index_dtype, const void* array, int64_t n) {
  if (index_dtype == ATTN_INDEX_64) {
    int64_t wide;
    std::memcpy(&wide, static_cast<const char*>(array) + 8 * n, sizeof wide);
    return wide;
  }
  int32_t narrow;
  std::memcpy(&narrow, static_cast<const char*>(array) + 4 * n, sizeof narrow);
  return narrow;
}

// The queries, or the keys, of all batch entries.
class EntryRows {
 public:
  // Dense: each entry has `rows` rows.
  EntryRows(int64_t entries, int64_t rows) : entries_(entries), rows_(rows) {}
  // Packed: entry b has the rows from borders[b] up to borders[b + 1].
  EntryRows(int64_t entries, const void* borders, int32_t index_dtype)
      : entries_(entries), borders_(borders), index_dtype_(index_dtype) {}

  // In pages: row j of entry b is slot j % page_size of page table[b * of_entry + j / page_size]. An entry has `rows`
  // rows at most.
  static EntryRows in_pages(int64_t entries, int64_t rows, const void* table, int64_t of_entry, int64_t page_size,
                            int32_t index_dtype) {
    EntryRows paged(entries, rows);
    paged.table_ = table, paged.of_entry_ = of_entry, paged.page_size_ = page_size;
    paged.index_dtype_ = index_dtype;
    return paged;
  }

  bool packed() const { return borders_ != nullptr; }
  int64_t length(int64_t b) const { return packed() ? border(b + 1) - border(b) : rows_; }
  // 0 <= i < length(b).
  StoredRow at(int64_t b, int64_t i) const {
    if (page_size_ > 0) return {index_at(index_dtype_, table_, b * of_entry_ + i / page_size_), i % page_size_};
    return packed() ? StoredRow{0, border(b) + i} : StoredRow{b, i};
  }
  // The batch entry that a stored row belongs to, and its place there. Not for pages, which several entries may share.
  std::optional<StoredRow> owner(const StoredRow& stored) const {
    if (!packed()) return stored;
    int64_t low = 0, high = entries_;  // the first entry that ends after the row is in [low, high]
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (border(middle + 1) > stored.row)
        high = middle;
      else
        low = middle + 1;
    }
    if (low == entries_) return std::nullopt;
    return StoredRow{low, stored.row - border(low)};
  }
  // Packed: the rows of all entries together.
  int64_t owned() const { return border(entries_); }

 private:
  int64_t border(int64_t b) const { return index_at(index_dtype_, borders_, b); }

  int64_t entries_, rows_ = 0;
  const void* borders_ = nullptr;
  const void* table_ = nullptr;
  int64_t of_entry_ = 0, page_size_ = 0;
  int32_t index_dtype_ = ATTN_INDEX_64;
};

struct Sequences {
  EntryRows queries, keys;

  Sequences(EntryRows of_queries, EntryRows of_keys) : queries(of_queries), keys(of_keys) {}
  // `host`: with cu_q, cu_k and block_table in host memory.
  Sequences(const attn_problem& p, const attn_tensors& host)
      : queries((p.ragged & ATTN_RAGGED_QUERIES) != 0 ? EntryRows(p.batch, host.cu_q, p.index_dtype)
                                                      : EntryRows(p.batch, p.seq_q)),
        keys(p.page_size != 0 ? EntryRows::in_pages(p.batch, p.seq_k, host.block_table.data,
                                                    host.block_table.stride[0], p.page_size, p.index_dtype)
             : (p.ragged & ATTN_RAGGED_KEYS) != 0 ? EntryRows(p.batch, host.cu_k, p.index_dtype)
                                                  : EntryRows(p.batch, p.seq_k)) {}

  StoredRow query_row(int64_t b, int64_t i) const { return queries.at(b, i); }
  StoredRow key_row(int64_t b, int64_t j) const { return keys.at(b, j); }
};

}  // namespace attnfuzz
