#include <sanitizer/asan_interface.h>

#include "fuzz/worker/memory/shadow.h"
#include "fuzz/worker/memory/shadow_rows.h"

namespace attnfuzz::worker {

void defined(const void*, size_t) {}

bool undefined_status() { return false; }

void before_run(const wire::Request& request, std::span<const MemoryRange> ranges, const Arena& arena) {
  for (const MemoryRange& range : ranges) {
    __asan_poison_memory_region(arena.base() + range.begin, range.end - range.begin);
  }
  for (int t = 0; t < kTensorCount; ++t) {
    const bool all =
        for_each_row(request, static_cast<TensorId>(t), [&](uint64_t offset, uint64_t bytes, const auto&) {
          __asan_unpoison_memory_region(arena.base() + offset, bytes);
        });
    if (all) continue;
    // There are too many rows to mark. The pattern in the redzones must suffice.
    for (const MemoryRange& range : ranges) {
      if (range.tensor == static_cast<TensorId>(t))
        __asan_unpoison_memory_region(arena.base() + range.begin, range.end - range.begin);
    }
  }
}

std::optional<std::string> after_run(const wire::Request&, const Arena&) { return std::nullopt; }

}  // namespace attnfuzz::worker
