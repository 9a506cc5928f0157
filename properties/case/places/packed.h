// The packed batch entries of a case: their lengths, and where their rows lie, keys in pages (pages.h) included.
//
//   const PackedCase packed(c.problem);
//   packed.borders_q();                       // cu_q: 0, then where each entry ends
//   packed.owner(TensorId::kO, {0, 17});      // batch entry and query of row 17 of O; nothing for a slack row
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/places/pages.h"
#include "reference/call/sequences.h"
#include "reference/semantics.h"

namespace attnfuzz {

// Returns how the entries of a tensor are packed, or nothing for a dense tensor.
inline const std::optional<Packing>& packing_of(const Problem& p, TensorId t) {
  static const std::optional<Packing> kNone;
  if (!may_be_packed(spec_of(t))) return kNone;
  return of_queries(spec_of(t)) ? p.packed_q : p.packed_k;
}

// The rows of entry b. `longest`: seq_q or seq_k. It is also the length of an entry without one of
// its own.
inline int64_t packed_length(const Packing& packing, int64_t longest, int64_t b) {
  const auto at = static_cast<size_t>(b);
  return at < packing.lengths.size() ? std::clamp<int64_t>(packing.lengths[at], 0, longest) : longest;
}

// The lengths of batch entry b. A key length is clamped to the keys that the entry has room for.
inline Lengths lengths_of(const Problem& p, int64_t b) {
  const int64_t queries = p.packed_q ? packed_length(*p.packed_q, p.seq_q, b) : p.seq_q,
                room = p.packed_k ? packed_length(*p.packed_k, p.seq_k, b) : p.seq_k;
  return p.key_lengths ? entry_lengths(p, queries, room, (*p.key_lengths)[static_cast<size_t>(b)])
                       : entry_lengths(p, queries, room);
}

// The ends of the entries, after a 0.
inline std::vector<int64_t> borders_of(const Packing& packing, int64_t longest) {
  std::vector<int64_t> borders = {0};
  for (size_t b = 0; b < packing.lengths.size(); ++b)
    borders.push_back(borders.back() + packed_length(packing, longest, static_cast<int64_t>(b)));
  return borders;
}

// Rows of the tensors: those of all entries, and the slack.
inline int64_t packed_rows(const Packing& packing, int64_t longest) {
  int64_t rows = packing.slack;
  for (size_t b = 0; b < packing.lengths.size(); ++b)
    rows += packed_length(packing, longest, static_cast<int64_t>(b));
  return rows;
}

// True if the tensor has keys in pages.
inline bool in_pages(const Problem& p, TensorId t) {
  return p.paging && may_be_packed(spec_of(t)) && of_keys(spec_of(t));
}

// Makes the batch entries dense, without pages. All then have the longest length. A layout that does not fit so many
// rows is given up.
void unpack(Case& c);

class PackedCase {
 public:
  explicit PackedCase(const Problem& p)
      : batch_(p.batch),
        borders_q_(p.packed_q ? borders_of(*p.packed_q, p.seq_q) : std::vector<int64_t>()),
        borders_k_(p.packed_k ? borders_of(*p.packed_k, p.seq_k) : std::vector<int64_t>()) {
    if (p.paging) pages_.emplace(p);
  }

  const std::vector<int64_t>& borders_q() const { return borders_q_; }
  const std::vector<int64_t>& borders_k() const { return borders_k_; }
  // Returns the pages of a case that has them.
  const Pages& pages() const { return *pages_; }

  // True if an index of the tensor's first dimension is no batch entry, because its entries are packed or in pages.
  bool packs(TensorId t) const { return may_be_packed(spec_of(t)) && (pages_of(t) || !borders(t).empty()); }
  // The batch entry and its row that a stored row belongs to.
  std::optional<StoredRow> owner(TensorId t, const StoredRow& stored) const {
    if (!packs(t)) return stored;
    if (pages_of(t)) return pages_->owner(stored);
    return EntryRows(batch_, borders(t).data(), ATTN_INDEX_64).owner(stored);
  }
  // owner(), but a slack row gets the last row of an entry before it, or {0, 0} if no entry has a row. A slot without
  // a key gets {0, 0}.
  StoredRow nearest(TensorId t, StoredRow stored) const {
    if (packs(t) && !pages_of(t)) stored.row = std::min(stored.row, std::max<int64_t>(borders(t).back() - 1, 0));
    return owner(t, stored).value_or(StoredRow{0, 0});
  }

 private:
  bool pages_of(TensorId t) const { return pages_ && of_keys(spec_of(t)); }
  const std::vector<int64_t>& borders(TensorId t) const { return of_queries(spec_of(t)) ? borders_q_ : borders_k_; }

  int64_t batch_;
  std::vector<int64_t> borders_q_, borders_k_;
  std::optional<Pages> pages_;
};

}  // namespace attnfuzz
