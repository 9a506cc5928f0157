// A 64-bit hash of a text that is the same on every machine and in every version. It
// names streams and tables, where a chance collision does no harm. FNV-1a
// (http://www.isthe.com/chongo/tech/comp/fnv/).
#pragma once

#include <cstdint>
#include <string_view>

namespace attnfuzz {

// To hash several texts, pass the hash of one as the start of the next.
constexpr uint64_t text_hash(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace attnfuzz
