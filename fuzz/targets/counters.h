// libFuzzer's extra counters, which it treats as coverage. It clears them before each unit and reads them
// afterwards.
#pragma once

#include <cstdint>
#include <span>

namespace attnfuzz {

inline constexpr int kCountedKernels = 2;

// Records the edges of Target::coverage() of the kernel with this index, but not how often they
// were taken. With counts, each size would look new to libFuzzer, and the corpus would be three
// times as large (README.md).
void count_edges(size_t kernel, std::span<const uint8_t> buckets);
// Records a situation of situations.h.
void count_situation(uint16_t id);

// The number of counters that are set, for a test: edges, then situations.
struct Lit {
  int edges = 0, situations = 0;
};
Lit lit_counters();

}  // namespace attnfuzz
