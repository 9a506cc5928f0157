// The values of slopes, one at a time, on a host and on a device.
//
//   slope_value(slopes, b, h)
#pragma once

#include "properties/case/case.h"
#include "properties/data/mask_values.h"

namespace attnfuzz {
namespace slope_values {

// Separates the hashes of slopes from those of other values with the same seed.
inline constexpr uint64_t kSalt = 0x736c6f70;

ATTN_BOTH inline SlopeKind kind_of_head(const Slopes& slopes, int64_t b, int64_t h) {
  if (slopes.kind != SlopeKind::kMixed) return slopes.kind;
  return static_cast<SlopeKind>(mix(slopes.seed ^ kSalt, 1, b, h, 0) % static_cast<uint64_t>(SlopeKind::kMixed));
}

}  // namespace slope_values

// The slope of head h in batch entry b.
ATTN_BOTH inline float slope_value(const Slopes& slopes, int64_t b, int64_t h) {
  if (!slopes.entries) b = 0;
  const uint64_t hash = mix(slopes.seed ^ slope_values::kSalt, 0, b, h, 0);
  // A number between 2^-5 and 1 with 24 random bits. The product is exact in double and is then rounded to float.
  // Otherwise a compiler could fuse it with the sum, and a device would get other slopes than the host.
  const double share = static_cast<double>(hash >> 40) * exp2_exact(-24) * (1 - exp2_exact(-5));
  const float uneven = exp2f_exact(-5) + static_cast<float>(share);
  switch (slope_values::kind_of_head(slopes, b, h)) {
    case SlopeKind::kPowers:
      return exp2f_exact(-1 - static_cast<int>((b + h) % 8));
    case SlopeKind::kUneven:
      return uneven;
    case SlopeKind::kNegative:
      return -uneven;
    case SlopeKind::kSteep:
      return 8 + static_cast<float>(hash >> 32 & 255) * 0.21875f;
    default:
      return 0;
  }
}

}  // namespace attnfuzz
