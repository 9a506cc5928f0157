// The meaning of a schedule seed. The seed is part of a case: the same seed gives
// the same order of threads, the same landing of copies, the same rounding.
//
//   bits 0-1  order of blocks and threads: 0 ascending, 1 descending,
//             2 and 3 random
//   bit 2     asynchronous copies: 0 land late, at the wait that covers them (tensor
//             loads: when no thread can go on without them); 1 land early, when issued
//   bit 3     tensor-core products: 0 round to nearest after every product,
//             1 truncate after every 16
//   bit 4     asynchronous products: 0 read their operands late, when no thread can
//             go on without them; 1 early, when the warpgroup has issued them
//
// All 64 bits seed the random order and the choice of the elected lane. Seed 0 is the plain case: in order,
// late, to nearest. A campaign needs both late and early copies: late copies hide a buffer that is refilled too
// soon, and early copies hide a missing wait.
#pragma once

#include <stdint.h>

namespace simt {

enum class Order : uint8_t { kAscending, kDescending, kRandom };

struct Schedule {
  Order order;
  bool copies_early;
  bool mma_truncates;
  bool products_early;
  int elected_lane;
};

// A small and fast generator. Every state but 0 has the full period.
struct Random {
  uint64_t state;

  constexpr explicit Random(uint64_t seed, uint64_t stream = 0) : state(mix(mix(seed) + stream) | 1) {}

  constexpr uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545F4914F6CDD1Du) >> 16;
  }

  static constexpr uint64_t mix(uint64_t value) {
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }
};

constexpr Schedule schedule_of(uint64_t seed) {
  constexpr Order kOrders[4] = {Order::kAscending, Order::kDescending, Order::kRandom, Order::kRandom};
  const int elected = seed == 0 ? 0 : static_cast<int>(Random::mix(seed) % 32);
  return {kOrders[seed & 3], (seed & 4) != 0, (seed & 8) != 0, (seed & 16) != 0, elected};
}

}  // namespace simt
