// The distribution of error/bound over the runs of a check. It gives the median and the worst, is small, and
// can be merged over processes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace attnfuzz {

class RatioHistogram {
 public:
  // Ratios of 0 (exact results) have their own bucket. Others have 16 buckets per octave from 2^-32 up, so that
  // the median is known to 4.5 %.
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
