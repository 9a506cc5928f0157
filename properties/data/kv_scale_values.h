// The values of the scales of 8-bit K and V, one at a time.
//
//   kv_scale_value(scales, of_values, b, g, j)
#pragma once

#include "properties/case/case.h"
#include "properties/data/fill_values.h"

namespace attnfuzz {

// The scale of key j of KV head g in batch entry b: of V if `of_values`, else of K. Positive and normal, from
// 2^-6 to 2^9. If entries share a page, b is the page's owner.
inline float kv_scale_value(const KvScales& scales, bool of_values, int64_t b, int64_t g, int64_t j) {
  constexpr uint64_t kSalt = 0x6b767363;  // separates these hashes from others with the same seed
  const bool by_page = scales.page > 0;
  if (!scales.entries && !by_page) b = 0;
  if (!scales.heads) g = 0;
  j = by_page ? j / scales.page : scales.keys ? j : 0;
  const uint64_t hash = mix(scales.seed ^ kSalt, of_values, b, g, j);
  const auto power = [&](int least, int count) { return exp2f_exact(least + static_cast<int>(hash % count)); };
  // From 1 to 2, with 23 random bits.
  const float uneven = 1 + static_cast<float>(hash >> 41) * exp2f_exact(-23);
  switch (scales.kind) {
    case ScaleKind::kPowers: {
      // Never 1. Neighbouring keys have different scales, and so have K and V.
      const auto turn = static_cast<int>((b + g + j + of_values) % 6);
      return exp2f_exact(turn % 2 == 0 ? 1 + turn / 2 : -1 - turn / 2);
    }
    case ScaleKind::kUneven:
      return power(-3, 6) * uneven;
    case ScaleKind::kHeadOff:
      return power(-3, 6) * uneven * (static_cast<uint64_t>(g) % 4 == scales.seed % 4 ? 64.0f : 1.0f);
    case ScaleKind::kApart:
      return power(-6, 12) * uneven;
    default:
      return 1;
  }
}

}  // namespace attnfuzz
