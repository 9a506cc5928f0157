// Random choices from a source of bits. They use integers only, so they are the same on every machine.
// draw/rapidcheck_rng.h uses RapidCheck's generator as the source.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

namespace attnfuzz {

class Rng {
 public:
  virtual ~Rng() = default;
  virtual uint64_t bits() = 0;

  // Uniform over low..high, both included.
  int64_t range(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  bool percent(int64_t chance) { return range(0, 99) < chance; }
  bool coin() { return (bits() >> 63) != 0; }

  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[range(0, static_cast<int64_t>(values.size()) - 1)];
  }
  template <class T>
  T pick(std::span<const T> values) {
    return values[static_cast<size_t>(range(0, static_cast<int64_t>(values.size()) - 1))];
  }

  template <class T>
  struct Weighted {
    int64_t weight;
    T value;
  };
  template <class T>
  T weighted(std::initializer_list<Weighted<T>> choices) {
    int64_t sum = 0;
    for (const Weighted<T>& choice : choices) sum += choice.weight;
    int64_t at = range(0, sum - 1);
    for (const Weighted<T>& choice : choices) {
      if (at < choice.weight) return choice.value;
      at -= choice.weight;
    }
    return choices.begin()->value;
  }
};

}  // namespace attnfuzz
