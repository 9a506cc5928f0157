#include "properties/case/features/cost.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "properties/case/features/feature.h"

namespace attnfuzz {

void Cost::add(float x) {
  const uint32_t raw = std::bit_cast<uint32_t>(x);
  int64_t rank = 4;
  int exponent = 0;
  if (x == 0.0f) {
    rank = 0;
  } else if (x == 1.0f) {
    rank = 1;
  } else if (std::isfinite(x) && std::fabs(std::frexp(x, &exponent)) == 0.5f) {
    rank = 2;
  } else if (std::isfinite(x) && std::fabs(x) < 4096 && x == std::floor(x)) {
    rank = 3;
  }
  add(rank);
  add(std::signbit(x));
  add(rank == 2 ? std::int64_t{std::abs(exponent - 1)} : 0);
  add(int64_t{raw});
}

void Cost::add(const Pattern& p) {
  add(static_cast<int>(p.kind));
  add(p.parameter);
  bits(p.seed);
}

void Cost::add(const Broadcast& b) {
  add(int{b.batch} + int{b.head} + int{b.query});
  add(int{b.batch} * 4 + int{b.head} * 2 + int{b.query});
}

void Cost::bits(uint64_t value) {
  add(static_cast<int64_t>(value >> 1));
  add(static_cast<int64_t>(value & 1));
}

void Cost::distance(int64_t value, int64_t usual) {
  int64_t far;
  const bool overflow =
      value >= 0 ? __builtin_sub_overflow(value, usual, &far) : __builtin_sub_overflow(usual, value, &far);
  if (overflow) far = INT64_MAX;
  add(far >= 0 ? far : -(far + 1));
  add(value < usual);
}

int64_t Cost::saturated_add(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

std::vector<int64_t> Cost::take() {
  at(Rank::kCount).add(parts_);
  std::array<size_t, static_cast<size_t>(Rank::kEnd)> next = {};  // the place of each rank's next number
  for (const auto& [rank, number] : words_) ++next[static_cast<size_t>(rank)];
  std::exclusive_scan(next.begin(), next.end(), next.begin(), size_t{0});
  std::vector<int64_t> numbers(words_.size());
  for (const auto& [rank, number] : words_) numbers[next[static_cast<size_t>(rank)]++] = number;
  return numbers;
}

std::vector<int64_t> complexity(const Case& c) {
  Cost cost;
  for (const Feature* feature : all_features()) feature->cost(c, cost);
  return cost.take();
}

}  // namespace attnfuzz
