// Exchange between the 32 lanes of a warp, and reductions over them. All lanes of the
// warp must call a function, from the same place and with the same template arguments.
//
//   lane_id, warp_id       of the calling thread
//   shfl(v, lane)          the value that lane % 32 passed
//   shfl_xor(v, mask)      the value of lane_id() ^ mask
//   syncwarp()             waits for all lanes, and makes earlier writes to shared memory visible
//   ballot(p)              bit l is set where lane l passed true
//   warp_max, warp_sum     over 32 lanes
//   quad_max, quad_sum     over the four lanes 4q..4q+3, which share a row of an
//                          mma accumulator; N values in one call, in place
//   quad_max_nan           the same maximum, but NaN if one of the four is NaN
//
// A reduction gives all its lanes the same bits: a sum is a butterfly that pairs neighbours first, and so adds
// the same pairs in every lane.
//
//   float row_max[2] = {...};
//   quad_max(row_max);
#pragma once

#include "kernels/primitives/math.h"
#include "kernels/primitives/platform.h"

namespace attn {

#ifdef __CUDACC__

// Computed from threadIdx and blockDim only, so that the compiler can tell which values are uniform.
__device__ __forceinline__ int thread_id() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

template <class T>
__device__ __forceinline__ T shfl(T value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

template <class T>
__device__ __forceinline__ T shfl_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}

__device__ __forceinline__ void syncwarp() { __syncwarp(); }
__device__ __forceinline__ uint32_t ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) value = fmax(value, shfl_xor(value, mask));
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) value += shfl_xor(value, mask);
  return value;
}

template <int N>
__device__ __forceinline__ void quad_max(float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    values[i] = fmax(values[i], shfl_xor(values[i], 1));
    values[i] = fmax(values[i], shfl_xor(values[i], 2));
  }
}

template <int N>
__device__ __forceinline__ void quad_max_nan(float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    values[i] = fmax_nan(values[i], shfl_xor(values[i], 1));
    values[i] = fmax_nan(values[i], shfl_xor(values[i], 2));
  }
}

template <int N>
__device__ __forceinline__ void quad_sum(float (&values)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    values[i] += shfl_xor(values[i], 1);
    values[i] += shfl_xor(values[i], 2);
  }
}

#else

inline int thread_id() { return static_cast<int>(simt::current->linear); }

namespace cpu {

template <class T>
struct Shuffle {
  static constexpr const char* kName = "shfl";
  T value;
  int source;
  T result;
  SIMT_SLOTS static void run(simt::Lanes<Shuffle> lanes, const simt::Meeting& meeting) {
    for (int lane = 0; lane < 32; ++lane) {
      if (!(meeting.members >> lane & 1)) continue;
      const int source = lanes[lane].source & 31;
      // If the source lane does not exist, the caller gets its own value.
      lanes[lane].result = lanes[meeting.members >> source & 1 ? source : lane].value;
    }
  }
};

struct Sync {
  static constexpr const char* kName = "syncwarp";
  static constexpr bool kOrdersMemory = true;
  static void run(simt::Lanes<Sync>, const simt::Meeting&) {}
};

struct Ballot {
  static constexpr const char* kName = "ballot";
  bool predicate;
  uint32_t result;
  SIMT_SLOTS static void run(simt::Lanes<Ballot> lanes, const simt::Meeting& meeting) {
    uint32_t bits = 0;
    for (int lane = 0; lane < 32; ++lane) {
      if (meeting.members >> lane & 1) bits |= static_cast<uint32_t>(lanes[lane].predicate) << lane;
    }
    for (int lane = 0; lane < 32; ++lane) {
      if (meeting.members >> lane & 1) lanes[lane].result = bits;
    }
  }
};

struct Max {
  static constexpr const char *kWarp = "warp_max", *kQuad = "quad_max";
  static float of(float a, float b) { return fmax(a, b); }
};

struct MaxNan {
  static constexpr const char* kQuad = "quad_max_nan";
  static float of(float a, float b) { return fmax_nan(a, b); }
};

struct Sum {
  static constexpr const char *kWarp = "warp_sum", *kQuad = "quad_sum";
  static float of(float a, float b) { return a + b; }
};

template <class Reduction>
struct WarpReduce {
  static constexpr const char* kName = Reduction::kWarp;
  float value;
  SIMT_SLOTS static void run(simt::Lanes<WarpReduce> lanes, const simt::Meeting& meeting) {
    need_whole_warp(meeting, kName);
    float values[32];
    for (int lane = 0; lane < 32; ++lane) values[lane] = lanes[lane].value;
    for (int count = 16; count > 0; count /= 2) {
      for (int i = 0; i < count; ++i) values[i] = Reduction::of(values[2 * i], values[2 * i + 1]);
    }
    for (int lane = 0; lane < 32; ++lane) lanes[lane].value = values[0];
  }

  static void need_whole_warp(const simt::Meeting& meeting, const char* name) {
    if (meeting.members == simt::kFullMask) return;
    simt::fault(ATTN_REPORT_DIVERGENCE, simt::current, meeting.here, "%s in a warp of less than 32 threads",
                name);
  }
};

template <class Reduction, int N>
struct QuadReduce {
  static constexpr const char* kName = Reduction::kQuad;
  float* values;
  SIMT_SLOTS static void run(simt::Lanes<QuadReduce> lanes, const simt::Meeting& meeting) {
    WarpReduce<Reduction>::need_whole_warp(meeting, kName);
    for (int quad = 0; quad < 32; quad += 4) {
      float *a = lanes[quad].values, *b = lanes[quad + 1].values;
      float *c = lanes[quad + 2].values, *d = lanes[quad + 3].values;
      for (int i = 0; i < N; ++i) {
        const float result = Reduction::of(Reduction::of(a[i], b[i]), Reduction::of(c[i], d[i]));
        a[i] = b[i] = c[i] = d[i] = result;
      }
    }
  }
};

}  // namespace cpu

template <class T>
inline T shfl(T value, int lane ATTN_AND_HERE) {
  cpu::Shuffle<T> shuffle{value, lane, value};
  simt::meet(shuffle, simt::kFullMask, here);
  return shuffle.result;
}

template <class T>
inline T shfl_xor(T value, int mask ATTN_AND_HERE) {
  return shfl(value, (thread_id() ^ mask) & 31, here);
}

inline void syncwarp(ATTN_HERE) {
  cpu::Sync sync;
  simt::meet(sync, simt::kFullMask, here);
}

inline uint32_t ballot(bool predicate ATTN_AND_HERE) {
  cpu::Ballot ballot{predicate, 0};
  simt::meet(ballot, simt::kFullMask, here);
  return ballot.result;
}

inline float warp_max(float value ATTN_AND_HERE) {
  cpu::WarpReduce<cpu::Max> reduce{value};
  simt::meet(reduce, simt::kFullMask, here);
  return reduce.value;
}

inline float warp_sum(float value ATTN_AND_HERE) {
  cpu::WarpReduce<cpu::Sum> reduce{value};
  simt::meet(reduce, simt::kFullMask, here);
  return reduce.value;
}

template <int N>
inline void quad_max(float (&values)[N] ATTN_AND_HERE) {
  cpu::QuadReduce<cpu::Max, N> reduce{values};
  simt::meet(reduce, simt::kFullMask, here);
}

template <int N>
inline void quad_max_nan(float (&values)[N] ATTN_AND_HERE) {
  cpu::QuadReduce<cpu::MaxNan, N> reduce{values};
  simt::meet(reduce, simt::kFullMask, here);
}

template <int N>
inline void quad_sum(float (&values)[N] ATTN_AND_HERE) {
  cpu::QuadReduce<cpu::Sum, N> reduce{values};
  simt::meet(reduce, simt::kFullMask, here);
}

#endif

__device__ __forceinline__ int lane_id() { return thread_id() & 31; }
__device__ __forceinline__ int warp_id() { return thread_id() >> 5; }

}  // namespace attn
