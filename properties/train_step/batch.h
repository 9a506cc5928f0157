// The cases of a step's calls, and how a model's activations become the tensors of a case.
#pragma once

#include <span>
#include <vector>

#include "properties/train_step/train_step.h"

namespace attnfuzz::train {

// Tokens of each sequence.
std::vector<int64_t> lengths_of(const Batch& batch);

// The call's case, inside the kernel's domain if that is possible.
Case case_of(const Batch& batch, const Setup& setup, const Operation& operation, const KernelInfo& kernel);
// Why the kernel does not take the case; empty: it does.
std::string refusal_of(const Case& c, Target& target);

// Activations, (token, head, column), to elements, (sequence, head, row, column), and back. Rows that a
// sequence does not have are 0.
std::vector<float> by_sequence(std::span<const double> activations, std::span<const int64_t> lengths,
                               int64_t heads);
template <class Number>
std::vector<double> by_token(std::span<const Number> elements, std::span<const int64_t> lengths,
                             int64_t heads) {
  int64_t tokens = 0, longest = 0;
  for (const int64_t length : lengths) tokens += length, longest = std::max(longest, length);
  const auto rows = static_cast<int64_t>(lengths.size()) * heads * longest;
  const int64_t columns = rows == 0 ? 0 : static_cast<int64_t>(elements.size()) / rows;
  std::vector<double> out(static_cast<size_t>(tokens * heads * columns));
  for (int64_t b = 0, first = 0; b < static_cast<int64_t>(lengths.size());
       first += lengths[static_cast<size_t>(b)], ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < lengths[static_cast<size_t>(b)]; ++i) {
        for (int64_t c = 0; c < columns; ++c)
          out[static_cast<size_t>(((first + i) * heads + h) * columns + c)] =
              static_cast<double>(elements[static_cast<size_t>(((b * heads + h) * longest + i) * columns + c)]);
      }
    }
  }
  return out;
}

}  // namespace attnfuzz::train
