// How error/bound is distributed over the runs of a check: enough for a median
// and a worst, small, and mergeable over processes.
#pragma once

#include <array>
#include <cstdint>

namespace attnfuzz {

class RatioHistogram {
 public:
  // A ratio of 0 (exact) is counted apart; others in 16 buckets an octave from
  // 2^-32 up, so that a median is known to 4.5 %.
  void add(double ratio);
  void merge(const RatioHistogram& other);
  double worst() const { return worst_; }
  double median() const;  // 0 if nothing was added
  uint64_t count() const { return count_; }

 private:
  static constexpr int kPerOctave = 16, kOctaves = 40, kLowest = -32;
  std::array<uint64_t, kPerOctave * kOctaves> buckets_ = {};
  uint64_t zeros_ = 0, count_ = 0;
  double worst_ = 0;
};

}  // namespace attnfuzz
