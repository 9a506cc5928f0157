// Sources of random choices for a draw: a seed, or the bytes of a fuzzer.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/hash.h"
#include "base/random.h"
#include "properties/case/rng.h"

namespace attnfuzz::sequences {

class SeededRng final : public Rng {
 public:
  explicit SeededRng(uint64_t seed) : random_{hash64(seed)} {}
  uint64_t bits() override { return random_(); }

 private:
  SplitMix64 random_;
};

// Each choice consumes 4 bytes. After the last byte, choices come from a generator that all bytes seed, so that
// a few bytes are enough for a whole session.
class BytesRng final : public Rng {
 public:
  explicit BytesRng(std::string_view bytes) : left_(bytes), rest_(text_hash(bytes)) {}
  uint64_t bits() override {
    if (left_.empty()) return rest_.bits();
    uint32_t choice = 0;
    const size_t taken = std::min(left_.size(), sizeof choice);
    std::memcpy(&choice, left_.data(), taken);
    left_.remove_prefix(taken);
    return uint64_t{choice} << 32 | choice;
  }

 private:
  std::string_view left_;
  SeededRng rest_;
};

}  // namespace attnfuzz::sequences
