// A number for a text, the same on every machine for ever: for streams and for tables'
// names, where two that meet by chance cost nothing. FNV-1a, 64 bits
// (http://www.isthe.com/chongo/tech/comp/fnv/).
#pragma once

#include <cstdint>
#include <string_view>

namespace attnfuzz {

// Of several texts: of each, beginning with the last one's.
constexpr uint64_t text_hash(std::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace attnfuzz
