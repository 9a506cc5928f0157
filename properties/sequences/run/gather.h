// Makes the dense problem of an attend and the new rows of an append from the model, and finds the first
// element of a pool that differs from the model.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/case.h"
#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {

// The layout of the rows of an append or an attend: dense, by (entry, head, row), or packed, by (head, row of
// any entry).
struct Rows {
  explicit Rows(const Step& step);
  // The same rows in the dense layout.
  Rows as_dense() const;
  bool packed() const { return !borders.empty(); }
  int64_t batch() const { return packed() ? std::ssize(borders) - 1 : entries; }
  int64_t count(int64_t entry) const {
    const auto e = static_cast<size_t>(entry);
    return packed() ? borders[e + 1] - borders[e] : rows;
  }
  // The index of a row among the rows of all heads.
  int64_t at(int64_t heads, int64_t entry, int64_t head, int64_t row) const {
    return packed() ? head * rows + borders[static_cast<size_t>(entry)] + row
                    : (entry * heads + head) * rows + row;
  }

  int64_t entries, rows;         // of the tensor: (entries, heads, rows, ...)
  int64_t longest;               // the most rows of an entry
  std::vector<int64_t> borders;  // cu_q
};

// The keys that a call of an attend takes (Step::split).
enum class Part { kAll, kFirst, kOthers };

// For each entry, the number of pages whose keys the first of two calls takes. Each query sees all of these
// keys.
std::vector<int64_t> first_pages(const Setup& setup, const Model& model, const Step& step);

// The forward problem of an attend with dense K and V in the order of the entries' tokens, without a block
// table. Queries derive from the step's token. Past the keys of an entry K and V are 0.
struct Gathered {
  Gathered(const Setup& setup, const Model& model, const Step& step, Part part = Part::kAll);
  // Valid while this object lives.
  attn_tensors tensors() const;

  const Rows rows;
  Problem problem;
  std::vector<std::byte> q, k, v;
};

// k_new or v_new of an append, in the layout Rows(step).
std::vector<std::byte> new_rows_of(const Setup& setup, const Step& step, bool k);

// Names, in a sentence, the first element of K or V that differs from the model; nothing if none does.
std::optional<std::string> difference(const Model& model, const Setup& setup, bool k,
                                      std::span<const std::byte> pool);

}  // namespace attnfuzz::sequences
