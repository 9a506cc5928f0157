// The model of a session's cache: the bytes that K and V must hold after each step.
//
// The model has a list of tokens for each sequence, a count of references for each page, and the token of each slot.
// Slots without a token hold NaN, and a page that nobody has any more holds NaN at once. Tokens of a truncated
// sequence become NaN too; if another sequence has the page, they stay until nobody has it. A sequence copies a shared
// page before it writes there.
//
//   Model model(setup);
//   if (auto why = model.objection(step)) return refuse(*why);
//   model.copy(model.make_room(step));  // the pages to copy first
//   model.finish(step);                 // all three: model.take(step)
//   model.pool(true)                    // the bytes of K
//
// A replay is taken as the step that it repeats (repeated()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "properties/sequences/session.h"

namespace attnfuzz::sequences {

// A pair of pages of COPY_PAGES.
struct CopiedPage {
  int64_t from, to;
  bool operator==(const CopiedPage&) const = default;
};

// Why a setup cannot be, in a sentence; nothing if it can.
std::optional<std::string> objection(const Setup& setup);
// Why a session cannot run, in a sentence; nothing if it can. Says nothing about Session::relation.
std::optional<std::string> objection(const Session& session);
// True if the step is no replay, or repeats an append or an attend among the steps before it.
bool replays_a_call(std::span<const Step> before, const Step& step);
// The step that step n comes to: of a replay the step that it repeats, with its own token, kernel and stream.
Step repeated(std::span<const Step> steps, size_t n);

class Model {
 public:
  static constexpr int64_t kNoToken = -1;

  explicit Model(const Setup& setup);

  // Why a step that is no replay cannot follow, in a sentence; nothing if it can.
  std::optional<std::string> objection(const Step& step) const;

  // Takes the pages that an append or a move needs, and returns those to copy into them; empty for other steps.
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
  const std::vector<int64_t>& tokens(int64_t entry) const { return entries_[static_cast<size_t>(entry)].tokens; }
  const std::vector<int64_t>& pages(int64_t entry) const { return entries_[static_cast<size_t>(entry)].pages; }
  // Its row of the block table.
  const std::vector<int64_t>& row(int64_t entry) const { return entries_[static_cast<size_t>(entry)].row; }
  int64_t references(int64_t page) const { return references_[static_cast<size_t>(page)]; }
  int64_t token_at(int64_t page, int64_t slot) const {
    return slots_[static_cast<size_t>(page * setup_.page_size + slot)];
  }
  int64_t free_pages() const;
  // The bytes of K, or of V.
  std::span<const std::byte> pool(bool k) const { return k ? k_ : v_; }
  // Of a pool: the strides of pages, heads, slots and columns, in elements.
  std::array<int64_t, 4> strides(bool k) const;
  // An element of K or V of a token, as bits. Its size is a multiple of 1/128, at most 2: exact in both formats.
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
  // Of the rows that an append has for an entry, those that it writes.
  int64_t room(int64_t entry, int64_t rows) const;
  int64_t pages_for(int64_t keys) const { return (keys + setup_.page_size - 1) / setup_.page_size; }
  // The pages that an append or a move takes: new ones, and those that it copies to.
  int64_t pages_wanted(const Step& step) const;
  void truncate(Entry& e, int64_t length);
  void follow(Entry& e);
  int64_t junk(const Entry& e, size_t column) const;

  const Setup setup_;
  std::vector<Entry> entries_;
  std::vector<int64_t> references_, slots_;
  std::vector<int64_t> emptied_;  // pages that a move leaves, released once they are copied
  std::vector<std::byte> k_, v_;
  uint64_t taken_ = 0;  // pages so far, for the order
};

}  // namespace attnfuzz::sequences
