// SplitMix64: a small random number generator that mixes well and gives the same numbers on every machine.
// G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
//
//   SplitMix64 random{seed};
//   const uint64_t bits = random();
//   const int64_t dice = random.below(6);
#pragma once

#include <cstdint>

#include "base/both.h"

namespace attnfuzz {

// The step of the generator: 2^64 divided by the golden ratio, made odd.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15;

// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
ATTN_BOTH constexpr uint64_t finish64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A hash of a counter: the first number of the generator with this seed.
ATTN_BOTH constexpr uint64_t hash64(uint64_t x) { return finish64(x + kSplitMixStep); }

struct SplitMix64 {
  uint64_t state;

  constexpr uint64_t operator()() { return finish64(state += kSplitMixStep); }
  // 0 <= n < most; the bias is below most / 2^64.
  constexpr int64_t below(int64_t most) {
    return static_cast<int64_t>((*this)() % static_cast<uint64_t>(most));
  }
};

}  // namespace attnfuzz
