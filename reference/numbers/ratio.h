// How far off one number is, of what it may be: what every verdict on a value hangs on, on a host and
// on a device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/numbers/both.h"

namespace attnfuzz {

// What an element must be.
enum class Due : uint8_t { kNumber = 0, kMustBeNaN = 1, kAnything = 2 };

// |got - centre| / allowed: at most 1 passes. See Expected::ratio().
ATTN_BOTH inline double ratio_of(Due due, double centre, double allowed, double overflow, bool logarithm,
                                 float got) {
  constexpr double kFails = std::numeric_limits<double>::infinity();
  if (due == Due::kAnything) return 0;
  if (due == Due::kMustBeNaN) return std::isnan(got) ? 0 : kFails;
  if (std::isnan(got)) return kFails;
  if (got == centre) return 0;
  if (std::isinf(got)) return !logarithm && (got > 0 ? centre : -centre) + allowed >= overflow ? 0 : kFails;
  if (std::isinf(allowed)) return 0;
  return allowed > 0 ? std::abs(got - centre) / allowed : kFails;
}

}  // namespace attnfuzz
