#include <xxhash.h>

#include "properties/case/codec/codec.h"

namespace attnfuzz {
namespace {

std::string hex32(uint64_t high, uint64_t low) {
  std::string text(32, '0');
  for (size_t n = 0; n < 16; ++n) {
    text[15 - n] = "0123456789abcdef"[high >> (4 * n) & 15];
    text[31 - n] = "0123456789abcdef"[low >> (4 * n) & 15];
  }
  return text;
}

}  // namespace

std::string digest(const Case& c) {
  const std::string text = encode(c);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return hex32(hash.high64, hash.low64);
}

// The index seeds the hash, so that swapping equal cases changes the sum. The sum, modulo 2^128, does not
// depend on the order.
void StreamDigest::add(uint64_t index, const Case& c) {
  const std::string text = encode(c);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), index);
  StreamDigest one;
  one.words[0] = hash.low64;
  one.words[1] = hash.high64;
  merge(one);
}

void StreamDigest::merge(const StreamDigest& other) {
  words[0] += other.words[0];
  words[1] += other.words[1] + (words[0] < other.words[0]);
}

std::string StreamDigest::hex() const { return hex32(words[1], words[0]); }

}  // namespace attnfuzz
