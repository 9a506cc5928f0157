#include "fuzz/batch/device/far_ranges.h"

#include <algorithm>
#include <stdexcept>

namespace attnfuzz::batch {

FarRanges::FarRanges(int ranges) : ranges_(static_cast<size_t>(ranges)) {
  if (ranges < kMostSlots * kTensors)
    throw std::logic_error("too few address ranges for the tensors of all slots");
}

int FarRanges::choose(const Places& places, int slot, size_t call) {
  // A slot holds no more than its share, so that each slot finds a range. Later calls of the slot use its
  // ranges again.
  const bool full = held_[static_cast<size_t>(slot)] >= static_cast<int>(ranges_.size()) / kMostSlots;
  Range* best = nullptr;
  bool best_fits = false;
  for (Range& range : ranges_) {
    const bool mine = range.slot == slot;
    if (range.call == call || (!mine && (full || range.slot >= 0))) continue;
    const bool fits = range.places == places;
    if (best && (best_fits > fits || (best_fits == fits && best->last_used <= range.last_used))) continue;
    best = &range, best_fits = fits;
  }
  held_[static_cast<size_t>(slot)] += best->slot != slot;
  best->places = places, best->slot = slot, best->call = call, best->last_used = ++choices_;
  return static_cast<int>(best - ranges_.data());
}

void FarRanges::assign(std::span<const Call> calls, std::span<const int> slots) {
  held_ = {};
  for (Range& range : ranges_) range.slot = -1, range.call = SIZE_MAX;
  of_.assign(calls.size(), {});
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    // A call in place finds its tensors where the call before it had them.
    const uint32_t kept = call.in_place && i > 0 ? call.spread & calls[i - 1].spread : 0;
    for (size_t t = 0; t < kTensors; ++t) {
      if (!(kept >> t & 1)) continue;
      of_[i][t] = of_[i - 1][t];
      ranges_[static_cast<size_t>(of_[i][t])].call = i;
    }
    for (size_t t = 0; t < kTensors; ++t) {
      if (!((call.spread & ~kept) >> t & 1)) continue;
      const TensorSlot& at = call.tensor[t];
      const bool at_page_end = call.at_page_end >> t & 1;
      of_[i][t] =
          choose({at.begin, at.data, at.end, at.block, at.left_out, at.blocks, at_page_end}, slots[i], i);
    }
  }
}

}  // namespace attnfuzz::batch
