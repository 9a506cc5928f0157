// Cases as canonical JSON: the one form for reproducers, corpora and libFuzzer units.
//
// Canonical: keys sorted, no white space but what encode() writes, fields that
// hold their default left out, numbers in shortest form that reads back the
// same, non-finite and planted values as hexadecimal bit patterns. Hence
// encode(decode(encode(c))) == encode(c), and equal cases have equal text.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "properties/case/case.h"
#include "base/files.h"

namespace attnfuzz {

std::string encode(const Case& c);

// Refuses unknown fields, unknown formats and versions, wrong types and values
// out of range; accepts any text encode() writes. Never throws, whatever the
// bytes; sizes are bounded before anything is allocated.
std::variant<Case, DecodeError> decode(std::string_view text);

// XXH3-128 of encode(c), lower-case hex; and of the stream of cases of a run.
std::string digest(const Case& c);

// A digest of a set of (index, case) pairs that does not depend on the order
// in which they are added: so one machine with one job and another with
// sixteen print the same.
class StreamDigest {
 public:
  void add(uint64_t index, const Case& c);
  void merge(const StreamDigest& other);
  std::string hex() const;
  uint64_t words[2] = {0, 0};
};

}  // namespace attnfuzz
