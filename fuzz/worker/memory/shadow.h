// Tells a sanitizer about a call's memory, because tensors lie in an arena that the sanitizer's
// allocator does not know. Each worker is linked with one of
//
//   shadow_none.cc   plain, TSan, CUDA: nothing to tell
//   shadow_asan.cc   redzones and gaps may not be touched
//   shadow_msan.cc   redzones, gaps, outputs and workspace are undefined; afterwards
//                    every output must be defined, and so must the status
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "fuzz/host/wire.h"
#include "properties/memory/arena.h"

namespace attnfuzz::worker {

// Call it before kernel code is entered: it marks `data` and a call's arguments as defined.
void defined(const void* data, size_t bytes);

// Call it right after kernel code has returned a status. True if the status depends on undefined
// memory.
bool undefined_status();

void before_run(const wire::Request& request, std::span<const MemoryRange> ranges, const Arena& arena);
// Says in a sentence what is wrong with the outputs; nothing if they are right.
std::optional<std::string> after_run(const wire::Request& request, const Arena& arena);

}  // namespace attnfuzz::worker
