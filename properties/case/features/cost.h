// The cost of a case says how simple it is. It is a list of numbers compared from the first on: the first
// difference decides, and smaller is simpler. Each feature adds its numbers at its ranks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "properties/case/case.h"

namespace attnfuzz {

// The order in which numbers count. A new feature calls count() for its presence, and uses kOther for its
// numbers.
enum class Rank : uint8_t {
  kCalls,
  kBatch,
  kHeads,
  kLengths,
  kDims,
  kCount,  // the number of parts of the case that differ from Case{}
  kRemap,
  // A bias can do more than hide keys, so a mask that hides the same keys is simpler.
  kBias,
  kMask,
  kNanBeyond,
  kPlanted,
  kVariant,
  kDtype,
  // Causality is the simplest way to hide keys, then windows, then lengths.
  kKeyLengths,
  kWindow,
  kCausal,
  kSplits,
  kSoftcap,
  kScale,
  kMaskForm,
  kBiasForm,
  kVariantNumber,
  kScaleBits,
  kOther,
  kFills,
  kPlantedValues,
  kLayout,
  kPoison,
  kLse,
  kDevice,
  kSchedule,
  kFillSeeds,
  kCallOrder,
  kEnd
};

class Cost {
 public:
  Cost() { words_.reserve(kUsual); }
  // The rank of the numbers that follow.
  Cost& at(Rank rank) {
    rank_ = rank;
    return *this;
  }
  // Reports how many parts of the feature differ from Case{}.
  void count(int parts) { parts_ += parts; }

  void add(int64_t value) { words_.emplace_back(rank_, value); }
  void add(bool value) { add(int64_t{value}); }
  void add(int value) { add(int64_t{value}); }
  // The order is 0, 1, powers of two, small integers, and all others by their bits.
  void add(float x);
  void add(const Pattern& p);
  void add(const Broadcast& b);
  // An order of all 64-bit values that starts at 0.
  void bits(uint64_t value);
  // Distance from a default, the default itself first.
  void distance(int64_t value, int64_t usual);

  std::vector<int64_t> take();

  static int64_t saturated_add(int64_t a, int64_t b);

 private:
  static constexpr size_t kUsual = 256;  // more than a case without planted values has
  Rank rank_ = Rank::kOther;
  int parts_ = 0;
  std::vector<std::pair<Rank, int64_t>> words_;
};

// The order in which the reducer prefers cases, most significant first: calls, batch, heads, lengths, head
// dimensions, features, data, seeds. It includes everything that a case holds. Hence only equal cases have
// equal cost, and the reducer, which always goes down, ends.
//
//   if (complexity(candidate) < complexity(best)) ...
std::vector<int64_t> complexity(const Case& c);

}  // namespace attnfuzz
