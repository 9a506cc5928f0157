// Which address range each spread tensor of a batch gets. Mapping memory into a range takes far longer than a
// call, so a tensor gets a range in which one with the same places lay before, if there is any. Calls of
// different slots run at the same time, and never share a range.
//
//   FarRanges ranges(PageEnds::kStretches);
//   ranges.assign(calls, slots);
//   int range = ranges.of(i, kKey);     // of call i
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/batch/device/call.h"

namespace attnfuzz::batch {

class FarRanges {
 public:
  // There must be a range for each tensor of each slot.
  explicit FarRanges(int ranges);
  // `slots`: of each call, below kMostSlots.
  void assign(std::span<const Call> calls, std::span<const int> slots);
  // Returns the range of a spread tensor of call number `call`, as the last assign() gave it. Two tensors of a
  // call have different ranges.
  int of(size_t call, int tensor) const { return of_[call][static_cast<size_t>(tensor)]; }

  static constexpr int kMostSlots = 16;

 private:
  // Two tensors with equal places need memory at the same offsets of their ranges.
  struct Places {
    uint64_t begin, data, end, block, left_out;
    uint32_t blocks;
    bool at_page_end;
    bool operator==(const Places&) const = default;
  };
  struct Range {
    Places places = {};
    int slot = -1;           // that has it in this batch
    uint64_t last_used = 0;  // number of the choice
    size_t call = SIZE_MAX;  // that has it
  };
  int choose(const Places& places, int slot, size_t call);

  std::vector<Range> ranges_;
  std::vector<std::array<int, kTensors>> of_;
  std::array<int, kMostSlots> held_ = {};  // ranges of each slot
  uint64_t choices_ = 0;
};

}  // namespace attnfuzz::batch
