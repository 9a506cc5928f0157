#include "properties/case/places/pages.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/random.h"
#include "properties/case/places/packed.h"
#include "reference/semantics.h"

namespace attnfuzz {
int64_t held_keys(const Problem& p, int64_t b) {
  const auto at = static_cast<size_t>(b);
  if (!p.key_lengths || at >= p.key_lengths->size()) return p.seq_k;
  return entry_lengths(p, p.seq_q, p.seq_k, (*p.key_lengths)[at]).keys;
}

int64_t new_rows(const Problem& p, int64_t b) {
  if ((p.features & ATTN_FEATURE_APPEND) == 0) return 0;
  return p.packed_q ? packed_length(*p.packed_q, p.seq_q, b) : p.seq_q;
}

int64_t paged_keys(const Problem& p, int64_t b) {
  return std::min(held_keys(p, b) + new_rows(p, b), std::max<int64_t>(p.seq_k, 0));
}

int64_t Problem::stores() const { return paging ? page_count(*this) : batch; }

int64_t page_count(const Problem& p) {
  int64_t own = 0, shared = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t pages = p.pages_of(paged_keys(p, b)),
                  common = std::min(pages, std::max<int64_t>(p.paging->shared, 0));
    own += pages - common;
    shared = std::max(shared, common);
  }
  return shared + own + p.paging->spare;
}

namespace {

std::vector<int64_t> keys_of_all(const Problem& p) {
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < p.batch; ++b) keys.push_back(paged_keys(p, b));
  return keys;
}

}  // namespace

Pages::Pages(const Problem& p) : Pages(*p.paging, keys_of_all(p), p.pages_per_seq()) {}

Pages::Pages(const Paging& paging, std::vector<int64_t> keys, int64_t columns)
    : paging_(paging), columns_(columns), keys_(std::move(keys)) {
  for (const int64_t n : keys_) {
    owned_.push_back(n / paging_.size + (n % paging_.size != 0));
    shared_ = std::max(shared_, std::min(owned_.back(), paging_.shared));
  }
  longest_ = std::ranges::max_element(keys_) - keys_.begin();
  first_.push_back(shared_);
  for (const int64_t pages : owned_)
    first_.push_back(first_.back() + std::max<int64_t>(pages - paging_.shared, 0));
  page_of_.resize(static_cast<size_t>(first_.back() + paging_.spare));
  std::iota(page_of_.begin(), page_of_.end(), 0);
  if (paging_.order != 0) {
    for (size_t n = page_of_.size(); n > 1; --n)
      std::swap(page_of_[n - 1], page_of_[hash64(hash64(paging_.order) + n) % n]);
  }
  place_of_.resize(page_of_.size());
  for (size_t n = 0; n < page_of_.size(); ++n) place_of_[static_cast<size_t>(page_of_[n])] = static_cast<int64_t>(n);
}

std::optional<StoredRow> Pages::owner(const StoredRow& stored) const {
  if (stored.entry >= count()) return std::nullopt;  // the redzone of a pool without pages
  const int64_t place = place_of_[static_cast<size_t>(stored.entry)];
  if (place >= first_.back()) return std::nullopt;
  const bool common = place < shared_;
  const int64_t b = common ? longest_ : std::ranges::upper_bound(first_, place) - first_.begin() - 1;
  const int64_t page = common ? place : place - first_[static_cast<size_t>(b)] + paging_.shared;
  const int64_t key = page * paging_.size + stored.row;
  if (key >= keys_[static_cast<size_t>(b)]) return std::nullopt;
  return StoredRow{b, key};
}

int64_t Pages::junk(int64_t b, int64_t n) const {
  const uint64_t dice = hash64(hash64(static_cast<uint64_t>(b)) + static_cast<uint64_t>(n));
  PageJunk kind = paging_.junk;
  if (kind == PageJunk::kMixed) kind = static_cast<PageJunk>(dice >> 32 & 3);
  switch (kind) {
    case PageJunk::kFirst:
      return 0;
    case PageJunk::kLargest:
      return std::numeric_limits<int32_t>::max();
    case PageJunk::kSpare:
      return paging_.spare == 0 ? -1 : page_of_[page_of_.size() - 1 - dice % static_cast<uint64_t>(paging_.spare)];
    case PageJunk::kAnother:
      return page_of_.empty() ? -1 : page_of_[dice % page_of_.size()];
    default:
      return -1;
  }
}

std::vector<int64_t> Pages::row(int64_t b) const {
  std::vector<int64_t> entries;
  for (int64_t n = 0; n < columns_; ++n) entries.push_back(n < owned(b) ? of(b, n) : junk(b, n));
  return entries;
}

}  // namespace attnfuzz
