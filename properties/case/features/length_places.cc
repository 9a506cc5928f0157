#include "properties/case/features/length_places.h"

#include <algorithm>

#include "properties/case/places/packed.h"

namespace attnfuzz {

EntryLengths entry_lengths(const Tiled& x, EntryKind kind) {
  const Problem& p = x.c.problem;
  EntryLengths lengths;
  if (kind == EntryKind::kKeysInPages) {
    if (!p.paging || !p.key_lengths) return lengths;
    lengths.step = p.paging->size;
    for (const int64_t length : *p.key_lengths)
      lengths.of.push_back(std::clamp<int64_t>(length, 0, std::max<int64_t>(p.seq_k, 0)));
    return lengths;
  }
  const bool queries = kind == EntryKind::kPackedQueries;
  lengths.step = queries ? x.tile_q : x.tile_k;
  const std::optional<Packing>& packing = queries ? p.packed_q : p.packed_k;
  for (int64_t b = 0; packing && b < p.batch; ++b)
    lengths.of.push_back(packed_length(*packing, queries ? p.seq_q : p.seq_k, b));
  return lengths;
}

bool lies(const EntryLengths& lengths, LengthPlace place) {
  const int64_t step = lengths.step;
  const auto count = [&](auto is) { return std::ranges::count_if(lengths.of, is); };
  switch (place) {
    case LengthPlace::kAllEmpty:
      return !lengths.of.empty() && count([](int64_t n) { return n != 0; }) == 0;
    case LengthPlace::kOneLong:
      return lengths.of.size() > 1 && count([=](int64_t n) { return n > std::max(step, kShort); }) == 1 &&
             count([](int64_t n) { return n > kShort; }) == 1;
    case LengthPlace::kBelow:
      return step > 1 && count([=](int64_t n) { return n > 0 && (n + 1) % step == 0; }) > 0;
    case LengthPlace::kWhole:
      return count([=](int64_t n) { return n > 0 && n % step == 0; }) > 0;
    case LengthPlace::kAbove:
      return step > 1 && count([=](int64_t n) { return n > step && (n - 1) % step == 0; }) > 0;
  }
  return false;
}

}  // namespace attnfuzz
