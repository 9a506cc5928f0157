// The tokens of a step of training, and how activations of a model become the tensors of a call.
//
//   const Batch batch = {.length = 64, .packed = true, .seed = 7};
//   lengths_of(batch, 1);    // {0, 3, 57, 4}, say
//   describe(batch, 1);      // "S = 64, packed as 0, 3, 57, 4"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attnfuzz::train {

inline constexpr int kSteps = 2;

// The most tokens of a step. The oracle judges each row of each call: a batch of this length takes a minute on
// a CPU.
inline constexpr int64_t kMostTokens = 8192;

// One sequence of `length` tokens, or as many tokens in packed sequences.
struct Batch {
  int64_t length = 128;
  bool packed = false;
  uint64_t seed = 1;  // of the packed sequences
};
std::string describe(const Batch& batch);            // "S = 512", "S = 512, packed"
std::string describe(const Batch& batch, int step);  // with the lengths of the step

// Tokens of each sequence. Packed sequences are about equal, one long among short ones, or cut anywhere; one or
// two are empty. The steps (from 1) have the same sequences in another order, so that their workspaces have the
// same size, and borders that the first step leaves there are wrong in the second. The first sequence of step 1
// has tokens.
std::vector<int64_t> lengths_of(const Batch& batch, int step);

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
