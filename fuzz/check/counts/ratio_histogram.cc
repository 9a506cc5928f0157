#include "fuzz/check/counts/ratio_histogram.h"

#include <algorithm>
#include <cmath>

namespace attnfuzz {

void RatioHistogram::add(double ratio) {
  worst_ = std::max(worst_, ratio);
  int bucket = kExact;
  if (ratio > 0) {
    const double at = (std::log2(ratio) - kLowest) * kPerOctave;
    bucket = static_cast<int>(std::clamp(at, 0.0, static_cast<double>(kPerOctave * kOctaves - 1)));
  }
  ++buckets_[bucket];
}

void RatioHistogram::merge(const RatioHistogram& other) {
  for (const auto& [bucket, n] : other.buckets_) buckets_[bucket] += n;
  worst_ = std::max(worst_, other.worst_);
}

uint64_t RatioHistogram::count() const {
  uint64_t sum = 0;
  for (const auto& [bucket, n] : buckets_) sum += n;
  return sum;
}

double RatioHistogram::median() const {
  const uint64_t all = count();
  uint64_t seen = 0;
  for (const auto& [bucket, n] : buckets_) {
    seen += n;
    if (seen * 2 >= all) return bucket == kExact ? 0 : std::exp2((bucket + 0.5) / kPerOctave + kLowest);
  }
  return 0;
}

}  // namespace attnfuzz
