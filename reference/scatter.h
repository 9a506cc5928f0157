// What is likely to be left of errors that are bounded key by key, where each falls to
// either side: sqrt(sum c^2) / sum c. Keys of one weight err alike (equal scores are rounded
// alike), and are added up first. No bound: what advice (advice.h) goes by.
//
//   Scatter s(n);
//   for (...) s.add(weight[k], charge[k]);
//   s.share()                                   // 1: a single key, or all of one weight
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace attnfuzz {

class Scatter {
 public:
  // Of at most `keys` keys.
  explicit Scatter(int64_t keys)
      : bits_(std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(keys))), 1, kMostBits)) {
    std::fill_n(sums_.begin(), places(), 0.0);
  }
  void add(double weight, double charge) {
    // By a hash of its weight to fp32: weights that share a place by chance make the share larger.
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(weight));
    sums_[bits * 0x9e3779b1u >> (32 - bits_)] += charge;
  }
  double share() const {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < places(); ++i) {
      const double c = sums_[static_cast<size_t>(i)];
      sum += c, squares += c * c;
    }
    const double share = std::sqrt(squares) / sum;
    return share < 1 ? share : 1;  // also of no number
  }

 private:
  static constexpr int kMostBits = 10;
  int64_t places() const { return int64_t{1} << bits_; }
  int bits_;
  std::array<double, size_t{1} << kMostBits> sums_;
};

inline double scatter_of(const double* weight, const double* charge, int64_t n) {
  Scatter scatter(n);
  for (int64_t k = 0; k < n; ++k) scatter.add(weight[k], charge[k]);
  return scatter.share();
}

}  // namespace attnfuzz
