#include "fuzz/check/ratio_histogram.h"

#include <algorithm>
#include <cmath>

namespace attnfuzz {

void RatioHistogram::add(double ratio) {
  ++count_;
  worst_ = std::max(worst_, ratio);
  if (!(ratio > 0)) {
    ++zeros_;
    return;
  }
  const double bucket = (std::log2(ratio) - kLowest) * kPerOctave;
  ++buckets_[static_cast<size_t>(std::clamp(bucket, 0.0, static_cast<double>(buckets_.size() - 1)))];
}

void RatioHistogram::merge(const RatioHistogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  zeros_ += other.zeros_;
  count_ += other.count_;
  worst_ = std::max(worst_, other.worst_);
}

double RatioHistogram::median() const {
  uint64_t seen = zeros_;
  if (count_ == 0 || seen * 2 >= count_) return 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen * 2 >= count_) return std::exp2((i + 0.5) / kPerOctave + kLowest);
  }
  return worst_;
}

}  // namespace attnfuzz
