// The distribution of error/bound over the runs of a check: enough for a median and a worst, small, and
// mergeable over processes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace attnfuzz {

class RatioHistogram {
 public:
  // A ratio of 0 (exact) is counted apart; others in 16 buckets an octave from
  // 2^-32 up, so that a median is known to 4.5 %.
  using Buckets = std::map<int, uint64_t>;

  RatioHistogram() = default;
  RatioHistogram(Buckets buckets, double worst) : buckets_(std::move(buckets)), worst_(worst) {}
  void add(double ratio);
  void merge(const RatioHistogram& other);
  double worst() const { return worst_; }
  double median() const;  // 0 if nothing was added
  uint64_t count() const;
  const Buckets& buckets() const { return buckets_; }

 private:
  static constexpr int kExact = -1, kPerOctave = 16, kOctaves = 40, kLowest = -32;
  Buckets buckets_;
  double worst_ = 0;
};

}  // namespace attnfuzz
