// libFuzzer's extra counters: what it takes for coverage beside its own. It clears
// them before each unit and looks at them after it.
#pragma once

#include <cstdint>
#include <span>

namespace attnfuzz {

inline constexpr int kCountedKernels = 2;

// Target::coverage() of the kernel with this index: which edges were taken. Not how
// often, which would give a kernel's loops a counter for each size: four times as many
// units in a corpus, and none the better for it.
void count_edges(size_t kernel, std::span<const uint8_t> buckets);
// A signal of signals.h.
void count_signal(uint16_t id);

// How many counters are lit, for a test: edges, then signals.
struct Lit {
  int edges = 0, signals = 0;
};
Lit lit_counters();

}  // namespace attnfuzz
