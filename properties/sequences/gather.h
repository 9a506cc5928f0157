// Derives from the model the dense problem of an attend and the new rows of an append, and finds the first place at
// which a pool differs from the model.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "properties/sequences/model.h"

namespace attnfuzz::sequences {

// Where the rows of an append or an attend lie: dense, (entry, head, row), or packed, (head, row of any entry).
struct Rows {
  explicit Rows(const Step& step);
  // The same rows as those of `entries` dense entries.
  Rows as_dense() const;
  bool packed() const { return !borders.empty(); }
  int64_t batch() const { return packed() ? std::ssize(borders) - 1 : entries; }
  int64_t count(int64_t entry) const {
    const auto e = static_cast<size_t>(entry);
    return packed() ? borders[e + 1] - borders[e] : rows;
  }
  // The place of a row among the rows of all heads.
  int64_t at(int64_t heads, int64_t entry, int64_t head, int64_t row) const {
    return packed() ? head * rows + borders[static_cast<size_t>(entry)] + row : (entry * heads + head) * rows + row;
  }

  int64_t entries, rows;         // of the tensor: (entries, heads, rows, ...)
  int64_t longest;               // the most of an entry
  std::vector<int64_t> borders;  // cu_q
};

// The keys that a call of an attend takes (Step::split).
enum class Part { kAll, kFirst, kOthers };

// The pages of each entry whose keys the first of two calls takes: each query sees all of them.
std::vector<int64_t> first_pages(const Setup& setup, const Model& model, const Step& step);

// The forward problem of an attend: dense keys and values of the entries' tokens, in order, and not through a table.
// Queries follow from the step's token. Behind the keys of an entry K and V are 0.
struct Gathered {
  Gathered(const Setup& setup, const Model& model, const Step& step, Part part = Part::kAll);
  // Valid as long as this object.
  attn_tensors tensors() const;

  const Rows rows;
  Problem problem;
  std::vector<std::byte> q, k, v;
};

// k_new or v_new, of Rows(step).
std::vector<std::byte> new_rows_of(const Setup& setup, const Step& step, bool k);

// The first element of K or V that is not the model's, in a sentence; nothing if all are.
std::optional<std::string> difference(const Model& model, const Setup& setup, bool k, std::span<const std::byte> pool);

}  // namespace attnfuzz::sequences
