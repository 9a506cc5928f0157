#include "fuzz/targets/counters.h"

#include <algorithm>

#include "fuzz/host/wire.h"
#include "properties/judge/situations.h"

namespace attnfuzz {
namespace {

constexpr size_t kEdges = wire::kMaxCounters, kAllEdges = kEdges * kCountedKernels;

// libFuzzer looks for a section of this name.
__attribute__((section("__libfuzzer_extra_counters"), used)) uint8_t counters[kAllEdges + kSituations];

}  // namespace

void count_edges(size_t kernel, std::span<const uint8_t> buckets) {
  if (kernel >= kCountedKernels) return;
  uint8_t* const first = counters + kernel * kEdges;
  const size_t n = std::min(buckets.size(), kEdges);
  for (size_t i = 0; i < n; ++i) {
    if (buckets[i] != 0) first[i] = 1;  // a count depends on sizes, which situations cover
  }
}

void count_situation(uint16_t id) {
  if (id < kSituations) counters[kAllEdges + id] = 1;
}

Lit lit_counters() {
  const auto lit = [](const uint8_t* begin, const uint8_t* end) {
    return static_cast<int>(end - begin - std::count(begin, end, uint8_t{0}));
  };
  return {lit(counters, counters + kAllEdges), lit(counters + kAllEdges, std::end(counters))};
}

}  // namespace attnfuzz
