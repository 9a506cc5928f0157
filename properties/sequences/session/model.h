// The model of a session's cache: the bytes that K and V must hold after each step.
//
// The model has a list of tokens for each sequence, a reference count for each page, and the token of each
// slot. Slots without a token hold NaN. When the last sequence leaves a page, the page becomes NaN at once.
// When a sequence is truncated, its dropped tokens become NaN too, but in a shared page they stay until the
// last sequence leaves it. A sequence copies a shared page before it writes to it.
//
//   Model model(setup);
//   if (auto why = model.objection(step)) return refuse(*why);
//   model.copy(model.make_room(step));  // copies pages before the write
//   model.finish(step);                 // these two lines are model.take(step)
//   model.pool(true)                    // the bytes of K
//
// For a replay, pass the step that it repeats (repeated()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/sequences/session/session.h"

namespace attnfuzz::sequences {

// A pair of pages of ATTN_FEATURE_COPY_PAGES.
struct CopiedPage {
  int64_t from, to;
  bool operator==(const CopiedPage&) const = default;
};

// Why a setup is not legal, in a sentence; nothing if it is.
std::optional<std::string> objection(const Setup& setup);
// Why a session is not legal, in a sentence; nothing if it is. Does not check Session::relation.
std::optional<std::string> objection(const Session& session);
// False for a replay that does not repeat an append or an attend among the steps before it.
bool replays_a_call(std::span<const Step> before, const Step& step);
// Step n; if it is a replay, the step that it repeats, with the replay's own token, kernel and stream.
Step repeated(std::span<const Step> steps, size_t n);

class Model {
 public:
  static constexpr int64_t kNoToken = -1;

  explicit Model(const Setup& setup);

  // Why a step (not a replay) is not legal now, in a sentence; nothing if it is.
  std::optional<std::string> objection(const Step& step) const;

  // Takes the free pages that an append or a move needs, and returns the pairs of pages to copy; empty for
  // other steps.
  std::vector<CopiedPage> make_room(const Step& step);
  void copy(std::span<const CopiedPage> pairs);
  // Everything else that the step does.
  void finish(const Step& step);
  void take(const Step& step) {
    copy(make_room(step));
    finish(step);
  }

  bool live(int64_t entry) const { return entries_[static_cast<size_t>(entry)].live; }
  int64_t length(int64_t entry) const { return static_cast<int64_t>(tokens(entry).size()); }
  const std::vector<int64_t>& tokens(int64_t entry) const {
    return entries_[static_cast<size_t>(entry)].tokens;
  }
  const std::vector<int64_t>& pages(int64_t entry) const { return entries_[static_cast<size_t>(entry)].pages; }
  // The entry's row of the block table.
  const std::vector<int64_t>& row(int64_t entry) const { return entries_[static_cast<size_t>(entry)].row; }
  int64_t references(int64_t page) const { return references_[static_cast<size_t>(page)]; }
  int64_t token_at(int64_t page, int64_t slot) const {
    return slots_[static_cast<size_t>(page * setup_.page_size + slot)];
  }
  int64_t free_pages() const;
  // The bytes of K, or of V.
  std::span<const std::byte> pool(bool k) const { return k ? k_ : v_; }
  // The strides of a pool's pages, heads, slots and columns, in elements.
  std::array<int64_t, 4> strides(bool k) const;
  // An element of a token's K or V, as bits. Its magnitude is a multiple of 1/128, at most 2, and exact in both
  // formats.
  static uint16_t element(const Setup& setup, bool k, int64_t token, int64_t head, int64_t column);

 private:
  struct Entry {
    bool live = false;
    std::vector<int64_t> tokens, pages, row;
  };

  Entry& entry(int64_t n) { return entries_[static_cast<size_t>(n)]; }
  int64_t take_page();
  void release(int64_t page);
  void set(int64_t page, int64_t slot, int64_t token);
  // How many of an append's rows for an entry fit the capacity and are written.
  int64_t room(int64_t entry, int64_t rows) const;
  int64_t pages_for(int64_t keys) const { return (keys + setup_.page_size - 1) / setup_.page_size; }
  // The number of free pages that an append or a move takes: new pages, and pages that it copies to.
  int64_t pages_wanted(const Step& step) const;
  void truncate(Entry& e, int64_t length);
  void follow(Entry& e);
  int64_t junk(const Entry& e, size_t column) const;

  const Setup setup_;
  std::vector<Entry> entries_;
  std::vector<int64_t> references_, slots_;
  std::vector<int64_t> emptied_;  // pages that sequences left in this step; released when they have been copied
  std::vector<std::byte> k_, v_;
  uint64_t taken_ = 0;  // pages taken so far, which seeds the random order
};

}  // namespace attnfuzz::sequences
