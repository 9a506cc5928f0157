// Detects outputs that change after run() has returned. The worker hashes them as soon as run() returns, and
// the parent does so when it reads them.
//
// The hash need not be cryptographic: a late thread writes right results, and cannot choose bytes
// that collide.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "properties/judge/target/target.h"

namespace attnfuzz {

// `base` is where the arena is mapped in this process.
inline uint64_t hash_outputs(const std::byte* base, std::span<const MemoryRange> ranges) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t hash = kOdd;
  for (const MemoryRange& range : ranges) {
    const auto t = static_cast<size_t>(range.tensor);
    if (t >= kTensorCount || !is_written(kTensors[t]) || range.end > Arena::kBytes) continue;
    uint64_t at = range.begin;
    for (; at + 8 <= range.end; at += 8) {
      uint64_t word;
      std::memcpy(&word, base + at, sizeof word);
      hash = std::rotl(hash ^ word, 29) * kOdd;
    }
    for (; at < range.end; ++at) hash = (hash ^ static_cast<uint64_t>(base[at])) * kOdd;
  }
  return hash;
}

}  // namespace attnfuzz
