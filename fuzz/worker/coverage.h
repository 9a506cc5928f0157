// Reads which edges of the kernel's code a run took, as the compiler counts them
// (-fsanitize-coverage in AttnfuzzBuilds.cmake). When the kernel's library is loaded, it tells this
// program where its counters are. A library that was built without coverage has no counters.
//
//   clear_coverage();
//   ... the kernel runs ...
//   uint32_t n = read_coverage(counters, capacity);   // 0: the library does not count
#pragma once

#include <cstdint>

namespace attnfuzz::worker {

void clear_coverage();

// Copies the counters of all edges, as many as fit, in an order that is the same in every process.
// A counter is the number of times modulo 256, but never 0 for an edge that was taken. Without this
// exception, an edge that every thread of two 128-thread blocks takes once would read as 0.
uint32_t read_coverage(uint8_t* counters, uint32_t capacity);

}  // namespace attnfuzz::worker
