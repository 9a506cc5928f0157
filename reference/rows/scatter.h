// Errors are bounded key by key: each key has a charge c. If the errors have random signs, they partly cancel.
// Scatter estimates the share of the sum of charges that is likely to remain: sqrt(sum c^2) / sum c. The share
// is no bound; warnings/error_statistics.h uses it.
//
// Keys of equal weight err alike, because equal scores are rounded alike. Their charges are therefore added
// before they are squared. Weights count as equal if they differ by much less than the last place of the sum of
// weights: adding a weight to this sum rounds it to that place, so such weights are rounded alike.
//
//   Scatter<2> s(n);
//   s.add(weight, {error, charge}, n);         // two kinds of charges of the same keys
//   s.shares()                                 // of either; 1: a single key, or all of one weight
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace attnfuzz {

template <size_t kKinds>
class Scatter {
 public:
  // For at most `keys` keys, whose weights sum to 1.
  explicit Scatter(int64_t keys)
      : bits_(
            std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(keys))), kLeastBits, kMostBits)) {
    std::fill_n(sums_.begin(), places(), std::array<float, kKinds>{});
  }
  void add(const double* weight, const std::array<const double*, kKinds>& charges, int64_t n) {
    constexpr int64_t kAtOnce = 64;
    for (int64_t first = 0; first < n; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, n - first);
      // The place is a hash of the rounded weight. Adding 0.125 rounds a small weight to 2^-26, an eighth of
      // the last place of an fp32 sum of 1. Weights that share a place by chance make the share larger.
      uint32_t place[kAtOnce];
      for (int64_t k = 0; k < count; ++k)
        place[k] = std::bit_cast<uint32_t>(static_cast<float>(weight[first + k] + 0.125)) * 0x9e3779b1u >>
                   (32 - bits_);
      for (int64_t k = 0; k < count; ++k) {
        Kinds all, of;
        for (size_t kind = 0; kind < kKinds; ++kind) of[kind] = static_cast<float>(charges[kind][first + k]);
        std::memcpy(&all, &sums_[place[k]], sizeof all);
        all += of;
        std::memcpy(&sums_[place[k]], &all, sizeof all);
      }
    }
  }
  std::array<float, kKinds> shares() const {
    // Several places at once; there are at least eight.
    constexpr size_t kAtOnce = 8 * kKinds;
    float sum[kAtOnce] = {}, squares[kAtOnce] = {};
    for (const float *c = sums_[0].data(), *end = c + places() * kKinds; c < end; c += kAtOnce)
      for (size_t i = 0; i < kAtOnce; ++i) sum[i] += c[i], squares[i] += c[i] * c[i];
    std::array<float, kKinds> out;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      for (size_t i = kind + kKinds; i < kAtOnce; i += kKinds) sum[kind] += sum[i], squares[kind] += squares[i];
      const float share = std::sqrt(squares[kind]) / sum[kind];
      out[kind] = share < 1 ? share : 1;  // for NaN, too
    }
    return out;
  }

 private:
  using Kinds = float __attribute__((ext_vector_type(kKinds)));
  static constexpr int kLeastBits = 3, kMostBits = 10;
  int64_t places() const { return int64_t{1} << bits_; }
  int bits_;
  std::array<std::array<float, kKinds>, size_t{1} << kMostBits> sums_;
};

}  // namespace attnfuzz
