#include "properties/train_step/batch.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace attnfuzz::train {
namespace {

// Draws the lengths of the sequences that have tokens.
std::vector<int64_t> drawn_lengths(SplitMix64& random, int64_t tokens) {
  enum { kEqual, kOneLong, kAnywhere, kKinds };
  const int64_t kind = random.below(kKinds), count = std::min<int64_t>(2 + random.below(4), tokens);
  std::vector<int64_t> lengths;
  int64_t left = tokens;
  for (int64_t n = count; n > 1; --n) {
    const int64_t most = left - (n - 1);  // each of the others has at least one
    lengths.push_back(kind == kEqual     ? (left + n - 1) / n
                      : kind == kOneLong ? 1 + random.below(std::min<int64_t>(most, 9))
                                         : 1 + random.below(most));
    left -= lengths.back();
  }
  lengths.push_back(left);
  return lengths;
}

}  // namespace

std::vector<int64_t> lengths_of(const Batch& batch, int step) {
  if (!batch.packed) return {batch.length};
  SplitMix64 random{hash64(batch.seed) ^ static_cast<uint64_t>(batch.length)};
  std::vector<int64_t> lengths = drawn_lengths(random, batch.length);
  const auto count = [&] { return static_cast<int64_t>(lengths.size()); };
  std::ranges::rotate(lengths, lengths.begin() + random.below(count()));
  for (int64_t empty = 1 + random.below(2); empty > 0; --empty)
    lengths.insert(lengths.begin() + 1 + random.below(count()), 0);
  // There is an empty and a non-empty sequence, so each rotation by one changes the order.
  std::ranges::rotate(lengths, lengths.begin() + (step - 1) % count());
  return lengths;
}

std::string describe(const Batch& batch) {
  return "S = " + std::to_string(batch.length) + (batch.packed ? ", packed" : "");
}

std::string describe(const Batch& batch, int step) {
  std::string text = describe(batch), before = " as ";
  if (!batch.packed) return text;
  for (const int64_t length : lengths_of(batch, step))
    text += std::exchange(before, ", ") + std::to_string(length);
  return text;
}

std::vector<float> by_sequence(std::span<const double> activations, std::span<const int64_t> lengths,
                               int64_t heads) {
  int64_t tokens = 0, longest = 0;
  for (const int64_t length : lengths) tokens += length, longest = std::max(longest, length);
  const int64_t columns = tokens == 0 ? 0 : static_cast<int64_t>(activations.size()) / tokens / heads;
  std::vector<float> out(lengths.size() * static_cast<size_t>(heads * longest * columns));
  for (int64_t b = 0, first = 0; b < static_cast<int64_t>(lengths.size());
       first += lengths[static_cast<size_t>(b)], ++b) {
    for (int64_t i = 0; i < lengths[static_cast<size_t>(b)]; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t c = 0; c < columns; ++c)
          out[static_cast<size_t>(((b * heads + h) * longest + i) * columns + c)] =
              static_cast<float>(activations[static_cast<size_t>(((first + i) * heads + h) * columns + c)]);
      }
    }
  }
  return out;
}

}  // namespace attnfuzz::train
