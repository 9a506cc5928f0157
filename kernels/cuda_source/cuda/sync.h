// Barriers, warp collectives and atomics of plain CUDA code.
#pragma once

#include <string.h>

#include <type_traits>

#include "kernels/executor/atomic_update.h"
#include "kernels/executor/cuda_words.h"

namespace simt {

// The value of a lane that reads from an absent lane: NaN in every format.
template <class T>
inline T poison() {
  T value;
  memset(&value, 0xFF, sizeof value);
  return value;
}

enum class Shift { kFrom, kUp, kDown, kXor };

template <class T, Shift kShift>
struct PlainShuffle {
  static constexpr const char* kName = "__shfl_sync";
  T value;
  int amount;
  int width;
  T result;

  // The lane that `lane` reads from. It is `lane` itself if the source would be outside of the segment.
  SIMT_SLOTS int source(int lane) const {
    const int first = lane & ~(width - 1), past = first + width;
    switch (kShift) {
      case Shift::kFrom:
        return first + (amount & (width - 1));
      case Shift::kUp:
        return lane - amount < first ? lane : lane - amount;
      case Shift::kDown:
        return lane + amount >= past ? lane : lane + amount;
      case Shift::kXor:
        return (lane ^ amount) >= past ? lane : lane ^ amount;
    }
  }

  SIMT_SLOTS static void run(Lanes<PlainShuffle> lanes, const Meeting& meeting) {
    for (int lane = 0; lane < 32; ++lane) {
      if (!(meeting.members >> lane & 1)) continue;
      const int from = lanes[lane].source(lane);
      lanes[lane].result = meeting.members >> from & 1 ? lanes[from].value : poison<T>();
    }
  }
};

template <Shift kShift, class T>
inline T shuffle(unsigned mask, T value, int amount, int width, Place here) {
  PlainShuffle<T, kShift> shuffle{value, amount, width, value};
  meet(shuffle, mask, here);
  return shuffle.result;
}

struct PlainSync {
  static constexpr const char* kName = "__syncwarp";
  static constexpr bool kOrdersMemory = true;
  static void run(Lanes<PlainSync>, const Meeting&) {}
};

struct PlainBallot {
  static constexpr const char* kName = "__ballot_sync";
  bool predicate;
  unsigned result;
  unsigned members;
  SIMT_SLOTS static void run(Lanes<PlainBallot> lanes, const Meeting& meeting) {
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane) {
      if (meeting.members >> lane & 1) bits |= static_cast<unsigned>(lanes[lane].predicate) << lane;
    }
    for (int lane = 0; lane < 32; ++lane) {
      if (!(meeting.members >> lane & 1)) continue;
      lanes[lane].result = bits;
      lanes[lane].members = meeting.members;
    }
  }
};

inline PlainBallot vote(unsigned mask, bool predicate, Place here) {
  PlainBallot ballot{predicate, 0, 0};
  meet(ballot, mask, here);
  return ballot;
}

}  // namespace simt

inline void __syncthreads(simt::Place here = simt::Place::now()) {
  simt::barrier(0, simt::kWholeBlock, true, here);
}

// Barriers that also return for how many of the block's threads the predicate is true, whether it is for any,
// and whether it is for all.
inline int __syncthreads_count(int predicate, simt::Place here = simt::Place::now()) {
  return simt::block_vote(predicate != 0, here).yes;
}
inline int __syncthreads_or(int predicate, simt::Place here = simt::Place::now()) {
  return simt::block_vote(predicate != 0, here).yes > 0;
}
inline int __syncthreads_and(int predicate, simt::Place here = simt::Place::now()) {
  return simt::block_vote(predicate != 0, here).no == 0;
}

inline void __syncwarp(unsigned mask = simt::kFullMask, simt::Place here = simt::Place::now()) {
  simt::PlainSync sync;
  simt::meet(sync, mask, here);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, simt::Place here = simt::Place::now()) {
  return simt::shuffle<simt::Shift::kFrom>(mask, value, lane, width, here);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                        simt::Place here = simt::Place::now()) {
  return simt::shuffle<simt::Shift::kUp>(mask, value, static_cast<int>(by), width, here);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                          simt::Place here = simt::Place::now()) {
  return simt::shuffle<simt::Shift::kDown>(mask, value, static_cast<int>(by), width, here);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                         simt::Place here = simt::Place::now()) {
  return simt::shuffle<simt::Shift::kXor>(mask, value, lanes, width, here);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, simt::Place here = simt::Place::now()) {
  return simt::vote(mask, predicate != 0, here).result;
}
inline int __any_sync(unsigned mask, int predicate, simt::Place here = simt::Place::now()) {
  return simt::vote(mask, predicate != 0, here).result != 0;
}
inline int __all_sync(unsigned mask, int predicate, simt::Place here = simt::Place::now()) {
  const simt::PlainBallot ballot = simt::vote(mask, predicate != 0, here);
  return ballot.result == ballot.members;
}

inline unsigned __activemask(simt::Place here = simt::Place::now()) {
  unsigned lanes = 0;
  simt::active_lanes(&lanes, here);
  return lanes;
}

namespace simt {

template <class T>
struct PlainMatch {
  static constexpr const char* kName = "__match_sync";
  T value;
  unsigned any;
  unsigned all;
  SIMT_SLOTS static void run(Lanes<PlainMatch> lanes, const Meeting& meeting) {
    for (int lane = 0; lane < 32; ++lane) {
      if (!(meeting.members >> lane & 1)) continue;
      unsigned same = 0;
      for (int other = 0; other < 32; ++other) {
        if (meeting.members >> other & 1)
          same |= static_cast<unsigned>(memcmp(&lanes[lane].value, &lanes[other].value, sizeof(T)) == 0)
                  << other;
      }
      lanes[lane].any = same;
      lanes[lane].all = same == meeting.members ? same : 0;
    }
  }
};

template <class T, class Of>
struct PlainReduce {
  static constexpr const char* kName = "__reduce_sync";
  T value;
  SIMT_SLOTS static void run(Lanes<PlainReduce> lanes, const Meeting& meeting) {
    bool first = true;
    T sum{};
    for (int lane = 0; lane < 32; ++lane) {
      if (!(meeting.members >> lane & 1)) continue;
      sum = first ? lanes[lane].value : static_cast<T>(Of::of(sum, lanes[lane].value));
      first = false;
    }
    for (int lane = 0; lane < 32; ++lane) {
      if (meeting.members >> lane & 1) lanes[lane].value = sum;
    }
  }
};

#define ATTN_SIMT_OF(Name, expression) \
  struct Name {                        \
    template <class T>                 \
    static T of(T a, T b) {            \
      return expression;               \
    }                                  \
  };
ATTN_SIMT_OF(ReduceAdd, a + b)
ATTN_SIMT_OF(ReduceMin, b < a ? b : a)
ATTN_SIMT_OF(ReduceMax, a < b ? b : a)
ATTN_SIMT_OF(ReduceAnd, a& b)
ATTN_SIMT_OF(ReduceOr, a | b)
ATTN_SIMT_OF(ReduceXor, a ^ b)
#undef ATTN_SIMT_OF

template <class Of, class T>
inline T reduce(unsigned mask, T value, Place here) {
  PlainReduce<T, Of> reduce{value};
  meet(reduce, mask, here);
  return reduce.value;
}

}  // namespace simt

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, simt::Place here = simt::Place::now()) {
  simt::PlainMatch<T> match{value, 0, 0};
  simt::meet(match, mask, here);
  return match.any;
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* all, simt::Place here = simt::Place::now()) {
  simt::PlainMatch<T> match{value, 0, 0};
  simt::meet(match, mask, here);
  *all = match.all != 0;
  return match.all;
}
#define SIMT_REDUCE(name, Operation)                                                               \
  template <class T>                                                                               \
  inline T __reduce_##name##_sync(unsigned mask, T value, simt::Place here = simt::Place::now()) { \
    return simt::reduce<simt::Operation>(mask, value, here);                                       \
  }
SIMT_REDUCE(add, ReduceAdd)
SIMT_REDUCE(min, ReduceMin)
SIMT_REDUCE(max, ReduceMax)
SIMT_REDUCE(and, ReduceAnd)
SIMT_REDUCE(or, ReduceOr)
SIMT_REDUCE(xor, ReduceXor)
#undef SIMT_REDUCE

inline void __threadfence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { simt::yield(); }

template <class T>
inline T atomicAdd(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) -> T { return before + value; });
}
template <class T>
inline T atomicSub(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) -> T { return before - value; });
}
template <class T>
inline T atomicMax(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) { return before < value ? value : before; });
}
template <class T>
inline T atomicMin(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) { return value < before ? value : before; });
}
template <class T>
inline T atomicAnd(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) -> T { return before & value; });
}
template <class T>
inline T atomicOr(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) -> T { return before | value; });
}
template <class T>
inline T atomicXor(T* address, std::type_identity_t<T> value) {
  return simt::atomic_update(address, [&](T before) -> T { return before ^ value; });
}
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return simt::atomic_update(address, [&](unsigned before) { return before >= limit ? 0 : before + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return simt::atomic_update(
      address, [&](unsigned before) { return before == 0 || before > limit ? limit : before - 1; });
}

// Locks use these two functions. A thread that waits for a lock must let other threads run.
template <class T>
inline T atomicExch(T* address, std::type_identity_t<T> value) {
  simt::yield();
  return simt::atomic_update(address, [&](T) { return value; });
}
template <class T>
inline T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  simt::yield();
  return simt::atomic_update(address, [&](T before) { return before == expected ? value : before; });
}
