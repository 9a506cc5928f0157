// Where threads of plain CUDA code meet: barriers, warp collectives, atomics.
#ifndef ATTNFUZZ_KERNELS_SIMT_CUDA_SYNC_H_
#define ATTNFUZZ_KERNELS_SIMT_CUDA_SYNC_H_

#include <string.h>

#include "kernels/simt/atomic_update.h"
#include "kernels/simt/cuda.h"

namespace simt {

// What a lane gets that reads from one that is not there: NaN in every format.
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

  // The lane that `lane` reads: its own where the segment ends.
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

inline void __threadfence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) { simt::yield(); }

template <class T>
inline T atomicAdd(T* address, T value) {
  return simt::atomic_update(address, [&](T before) -> T { return before + value; });
}
template <class T>
inline T atomicSub(T* address, T value) {
  return simt::atomic_update(address, [&](T before) -> T { return before - value; });
}
template <class T>
inline T atomicMax(T* address, T value) {
  return simt::atomic_update(address, [&](T before) { return before < value ? value : before; });
}
template <class T>
inline T atomicMin(T* address, T value) {
  return simt::atomic_update(address, [&](T before) { return value < before ? value : before; });
}
template <class T>
inline T atomicAnd(T* address, T value) {
  return simt::atomic_update(address, [&](T before) -> T { return before & value; });
}
template <class T>
inline T atomicOr(T* address, T value) {
  return simt::atomic_update(address, [&](T before) -> T { return before | value; });
}

// These two are what locks are made of: others must run while one is held.
template <class T>
inline T atomicExch(T* address, T value) {
  simt::yield();
  return simt::atomic_update(address, [&](T) { return value; });
}
template <class T>
inline T atomicCAS(T* address, T expected, T value) {
  simt::yield();
  return simt::atomic_update(address, [&](T before) { return before == expected ? value : before; });
}

#endif  // ATTNFUZZ_KERNELS_SIMT_CUDA_SYNC_H_
