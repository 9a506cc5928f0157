// Reads which edges of the kernel's code a run took, as the compiler counts them
// (-fsanitize-coverage in AttnfuzzBuilds.cmake). The kernel's library tells this
// program where its counters are when it is loaded; one without has none.
//
//   clear_coverage();
//   ... the kernel runs ...
//   uint32_t n = read_coverage(counters, capacity);   // 0: the library does not count
#pragma once

#include <cstdint>

namespace attnfuzz::worker {

void clear_coverage();

// Copies the counters of all edges, as many as fit, in an order that is the same in
// every process. A counter is a number of times modulo 256, but never 0 for an edge
// that was taken: blocks have powers of two of threads, and what each thread passes
// once would come out as never.
uint32_t read_coverage(uint8_t* counters, uint32_t capacity);

}  // namespace attnfuzz::worker
