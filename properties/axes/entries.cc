// Axes of batch entries that have lengths of their own: packed queries and keys, and keys in pages.
#include <algorithm>

#include "properties/axes/axis.h"
#include "properties/case/features/length_places.h"

namespace attnfuzz {
namespace {

constexpr uint64_t feature_of(EntryKind kind) {
  return kind == EntryKind::kKeysInPages ? ATTN_FEATURE_PAGED : ATTN_FEATURE_RAGGED;
}

// Lengths of `batch` entries in the class `place`. `step`: the keys or rows of a tile or page.
std::vector<int64_t> lengths_at(LengthPlace place, int64_t batch, int64_t step) {
  const int64_t length = place == LengthPlace::kAllEmpty ? 0
                         : place == LengthPlace::kBelow  ? step - 1
                         : place == LengthPlace::kWhole  ? step
                         : place == LengthPlace::kAbove  ? step + 1
                                                         : 1;
  std::vector<int64_t> lengths(static_cast<size_t>(batch), length);
  if (place == LengthPlace::kOneLong) lengths.front() = std::max(step, kShort) + 1;
  return lengths;
}

void make(EntryKind kind, const DrawContext& context, LengthPlace place, Case& c) {
  Problem& p = c.problem;
  if ((context.config.features & feature_of(kind)) == 0 || (p.features & kOperations) != 0) return;
  p.batch = std::max<int64_t>(p.batch, place == LengthPlace::kOneLong ? 2 : 1);
  const bool pages = kind == EntryKind::kKeysInPages, queries = kind == EntryKind::kPackedQueries;
  constexpr int64_t kPage = 16;
  const std::vector<int64_t> lengths = lengths_at(place, p.batch,
                                                  pages     ? kPage
                                                  : queries ? context.tile_q
                                                            : context.tile_k);
  int64_t& longest = queries ? p.seq_q : p.seq_k;
  longest = std::max(longest, std::ranges::max(lengths));
  if (pages) {
    p.packed_k.reset();
    p.paging = Paging{.size = kPage};
    p.key_lengths = lengths;
    return;
  }
  if (!queries) p.paging.reset();
  (queries ? p.packed_q : p.packed_k) = Packing{.lengths = lengths};
}

// A case is in the first class that applies.
CaseAxis places(const char* name, EntryKind kind) {
  CaseAxis axis{.name = name,
                .phase = Phase::kLater,
                .classes = {std::begin(kLengthPlaceNames), std::end(kLengthPlaceNames)},
                .of = {},
                .make = {},
                .asked = false};
  axis.of = [kind](const Tiled& x) {
    const EntryLengths lengths = entry_lengths(x, kind);
    for (int at = 0; at < kLengthPlaces; ++at) {
      if (lies(lengths, static_cast<LengthPlace>(at))) return at;
    }
    return kNoClass;
  };
  axis.make = [kind](const DrawContext& context, int at, Case& c) {
    make(kind, context, static_cast<LengthPlace>(at), c);
  };
  return axis;
}

}  // namespace

std::vector<CaseAxis> axes_of_entries() {
  return {places("packed queries:", EntryKind::kPackedQueries), places("packed keys:", EntryKind::kPackedKeys),
          places("keys in pages:", EntryKind::kKeysInPages)};
}

}  // namespace attnfuzz
