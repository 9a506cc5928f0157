// Compares a number with its bound. Every verdict on a value uses this function, on the host and on
// a device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/both.h"

namespace attnfuzz {

// The requirement on an element.
enum class Due : uint8_t { kNumber = 0, kMustBeNaN = 1, kAnything = 2 };

// |got - centre| / allowed; at most 1 passes. See Expected::ratio(). For a logarithm, `overflow` 0 means that
// it cannot become an infinity. If `allowed` is infinite for a logarithm, the overflow test uses |centre| / 256
// instead.
ATTN_BOTH inline double ratio_of(Due due, double centre, double allowed, double overflow, bool logarithm,
                                 float got) {
  constexpr double kFails = std::numeric_limits<double>::infinity();
  if (due == Due::kAnything) return 0;
  if (due == Due::kMustBeNaN) return std::isnan(got) ? 0 : kFails;
  if (std::isnan(got)) return kFails;
  if (got == centre) return 0;
  if (std::isinf(got)) {
    if (logarithm && overflow == 0) return kFails;
    const double most = logarithm && std::isinf(allowed) ? std::abs(centre) / 256 : allowed;
    return (got > 0 ? centre : -centre) + most >= overflow ? 0 : kFails;
  }
  if (std::isinf(allowed)) return 0;
  return allowed > 0 ? std::abs(got - centre) / allowed : kFails;
}

}  // namespace attnfuzz
