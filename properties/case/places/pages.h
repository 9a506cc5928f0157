// The pages of a case's keys: which slot of the pools holds which key, and the block table that says so.
//
//   const Pages pages(c.problem);          // of a case with Paging
//   pages.count();                         // pages of K and of V
//   pages.of(b, n);                        // the page of batch entry b whose first key is n * size
//   pages.owner({page, slot});             // {b, j}; nothing for a slot that holds no key
//   pages.row(b);                          // row b of the block table, unused columns included
//
// The first pages of all entries may be the same (Paging::shared). The owner of a shared key is the first of
// the entries with the most keys. An append (ATTN_FEATURE_APPEND) has pages for the keys that it writes, too;
// they hold no key before the call.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "properties/case/case.h"
#include "reference/call/sequences.h"

namespace attnfuzz {

// The number of keys of batch entry b in K and V before the call: its key length, or seq_k if it
// has none.
int64_t held_keys(const Problem& p, int64_t b);
// The rows that an append has for batch entry b; 0 in other operations.
int64_t new_rows(const Problem& p, int64_t b);
// The number of keys of batch entry b that have a place in the pages: held keys, and new ones up to seq_k.
int64_t paged_keys(const Problem& p, int64_t b);
// The pages of K and of V, spare ones included.
int64_t page_count(const Problem& p);
// The number of first keys that all batch entries share, as far as their own keys reach.
inline int64_t shared_keys(const Problem& p) { return p.paging ? p.paging->shared * p.paging->size : 0; }

class Pages {
 public:
  explicit Pages(const Problem& p);
  // `keys`: of each batch entry; `columns`: entries of a row of the block table.
  Pages(const Paging& paging, std::vector<int64_t> keys, int64_t columns);

  int64_t count() const { return static_cast<int64_t>(page_of_.size()); }
  int64_t of(int64_t b, int64_t n) const {
    const int64_t own = n - paging_.shared;
    return page_of_[static_cast<size_t>(own < 0 ? n : first_[static_cast<size_t>(b)] + own)];
  }
  // The number of pages of batch entry b, shared ones included.
  int64_t owned(int64_t b) const { return owned_[static_cast<size_t>(b)]; }
  std::optional<StoredRow> owner(const StoredRow& stored) const;
  std::vector<int64_t> row(int64_t b) const;

 private:
  int64_t junk(int64_t b, int64_t n) const;

  Paging paging_;
  int64_t columns_;
  std::vector<int64_t> keys_;   // of each batch entry
  std::vector<int64_t> owned_;  // pages of each batch entry
  int64_t shared_ = 0;          // pages at the first places that entries share
  int64_t longest_ = 0;         // the first entry with the most keys
  // A place is the number of a page before the shuffle: shared pages first, then those of each entry.
  std::vector<int64_t> first_;    // the place of each entry's own first page, and the end
  std::vector<int64_t> page_of_;  // the page at a place
  std::vector<int64_t> place_of_;
};

}  // namespace attnfuzz
