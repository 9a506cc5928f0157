// Cases as canonical JSON: the one form for reproducers, corpora and libFuzzer units.
//
// Canonical means: keys are sorted; white space is as encode() writes it; fields with their default are
// left out; numbers have the shortest form that reads back the same; non-finite and planted values are
// hexadecimal bit patterns. Hence encode(decode(encode(c))) == encode(c), and equal cases have equal text.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/files.h"
#include "properties/case/case.h"

namespace attnfuzz {

std::string encode(const Case& c);

// Accepts any text that encode() writes. Refuses unknown fields, unknown formats and versions, wrong types,
// and values out of range. Never throws, whatever the bytes. Bounds every size before it allocates.
std::variant<Case, DecodeError> decode(std::string_view text);

// XXH3-128 of encode(c), in lower-case hex.
std::string digest(const Case& c);

// Digest of a set of (index, case) pairs. It does not depend on the order of add(), so one job and sixteen
// jobs print the same.
class StreamDigest {
 public:
  void add(uint64_t index, const Case& c);
  void merge(const StreamDigest& other);
  std::string hex() const;
  uint64_t words[2] = {0, 0};
};

}  // namespace attnfuzz
