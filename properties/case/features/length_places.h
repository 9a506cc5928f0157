// Places of the lengths of a case's batch entries: near the end of a tile or page, all 0, or one far longer than
// the others. Kernels err there, so tags (feature.h) and axes (properties/axes) count these places.
//
//   lies(entry_lengths(x, EntryKind::kPackedKeys), LengthPlace::kBelow)   // some entry ends one key before a tile does
#pragma once

#include <cstdint>
#include <vector>

#include "properties/case/features/feature.h"

namespace attnfuzz {

enum class EntryKind : uint8_t { kPackedQueries, kPackedKeys, kKeysInPages };

// A case may be in several places.
enum class LengthPlace : uint8_t {
  kAllEmpty,
  kOneLong,  // one entry is longer than a tile or page, and the others, at least one, have at most kShort rows
  kBelow,    // an entry has one row less than a number of whole tiles or pages
  kWhole,    // an entry has whole tiles or pages
  kAbove     // an entry has one row more than whole tiles or pages
};
inline constexpr int kLengthPlaces = 5;
inline constexpr const char* kLengthPlaceNames[kLengthPlaces] = {
    "all empty", "one long among short", "1 below a border", "at a border", "1 above a border"};
inline constexpr int64_t kShort = 3;

struct EntryLengths {
  std::vector<int64_t> of;  // by batch entry; empty if the case has no entries of this kind
  int64_t step = 1;         // rows of a query tile, keys of a KV tile or of a page
};

EntryLengths entry_lengths(const Tiled& x, EntryKind kind);
// With a step of 1, each length that is not 0 is whole, and none is below or above.
bool lies(const EntryLengths& lengths, LengthPlace place);

}  // namespace attnfuzz
