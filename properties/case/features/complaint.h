// What is wrong with a field, in words.
#pragma once

#include <optional>
#include <string>

#include "properties/case/words.h"

namespace attnfuzz {

using Complaint = std::optional<std::string>;

inline constexpr int64_t kMaxSize = int64_t{1} << 31;
inline constexpr int64_t kMaxIndex = int64_t{1} << 40;  // of a remapped recipe

inline std::string say(const std::string& field, int64_t value, const std::string& allowed) {
  return cat(field, " is ", value, ", must be ", allowed);
}

inline Complaint outside(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return say(field, value, cat(low, "..", high));
}

inline Complaint bad_fill(const std::string& field, const Fill& fill) {
  if (fill.version != 1) return say(field + ".version", fill.version, "1, the only one known");
  return outside(field + ".exponent", fill.exponent, -256, 256);
}

}  // namespace attnfuzz
