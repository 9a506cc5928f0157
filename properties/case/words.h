// A case in words. describe(), explain() and the reducer's report share these pieces, so that each thing
// has one name everywhere.
//
//   join(mask_words(c.problem), ", ");  // "causal (top-left), window [-3, +0]"
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

const char* to_string(FillKind kind);
const char* to_string(BiasKind kind);
std::string to_string(const Pattern& pattern);  // the visible pairs
const char* align_name(int32_t align);          // "top-left"
const char* dtype_name(int32_t dtype);          // "f16"
// the shortest text that reads back as the same double, or as the same float if x is one
std::string number(double x);
std::string hex(uint64_t x);  // lower case, no prefix
std::string several(uint64_t n, const char* what);  // "1 key", "2 keys"

// Concatenates its arguments.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string text;
  const auto add = [&text](const auto& part) {
    using T = std::decay_t<decltype(part)>;
    if constexpr (std::is_floating_point_v<T>) {
      text += number(part);
    } else if constexpr (std::is_integral_v<T>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

// "B=1 H=2/1 S=64/65 D=64/64 f16"
std::string sizes_line(const Problem& p);
// Everything that hides keys or changes scores by position; one entry for each feature.
std::vector<std::string> mask_words(const Problem& p);
// Fills, planted values, NaN beyond key lengths.
std::vector<std::string> data_words(const Case& c);
// Layouts, environment, poison, LSE: everything that is not the default.
std::vector<std::string> surroundings_words(const Case& c);
std::string calls_words(const Case& c);  // "2 calls, 1 on a dirty workspace"

// The whole case in one line: "B=1 H=1/1 S=65/65 D=64/64 f16 causal (top-left); Q, K, V constant; 1 call".
std::string describe(const Case& c);

std::string join(const std::vector<std::string>& parts, const char* separator);

}  // namespace attnfuzz
