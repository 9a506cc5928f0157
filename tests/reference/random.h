// Random numbers for tests of the oracle.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/random.h"

namespace attnfuzz {

// Small, fast, and the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : random_{seed} {}
  uint64_t bits() { return random_(); }
  int64_t below(int64_t n) { return random_.below(n); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double gaussian() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  SplitMix64 random_;
};

}  // namespace attnfuzz
