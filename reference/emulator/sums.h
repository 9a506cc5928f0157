// Combines the parts of a sum.
#pragma once

#include <vector>

namespace attnfuzz::emulator {

// Adds neighbours first. The number of parts must be a power of two.
inline float in_pairs(std::vector<float> parts) {
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t n = 0; n < parts.size() / 2; ++n) parts[n] = parts[2 * n] + parts[2 * n + 1];
  return parts[0];
}

inline float in_order(const std::vector<float>& parts) {
  float sum = parts[0];
  for (size_t n = 1; n < parts.size(); ++n) sum += parts[n];
  return sum;
}

}  // namespace attnfuzz::emulator
