// What the model says about a call: the dense problem of an attend, the new rows of an append, and the first place
// at which pools differ from the model.
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

// The dense forward problem of an attend: keys and values of the entries' tokens, in order, and not through a table.
// Queries follow from the step's token. Behind the keys of an entry K and V are 0.
struct Gathered {
  Gathered(const Setup& setup, const Model& model, const Step& step);
  // Valid as long as this object.
  attn_tensors tensors() const;

  Problem problem;
  std::vector<std::byte> q, k, v;
};

// k_new or v_new: (entry, head, row, column).
std::vector<std::byte> new_rows_of(const Setup& setup, const Step& step, bool k);

// The first element of K or V that is not the model's, in a sentence; nothing if all are.
std::optional<std::string> difference(const Model& model, const Setup& setup, bool k, std::span<const std::byte> pool);

}  // namespace attnfuzz::sequences
