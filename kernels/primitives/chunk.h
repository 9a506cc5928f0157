// The 16 bytes that a thread reads or writes at once.
//
//   *reinterpret_cast<Chunk*>(to) = *reinterpret_cast<const Chunk*>(from);   // addresses that 16 divides
#pragma once

#include <cstdint>

namespace attn {

struct alignas(16) Chunk {
  uint32_t words[4];
};

}  // namespace attn
