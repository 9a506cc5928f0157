// CUB's reductions and prefix sums on the executor: BlockReduce, WarpReduce, BlockScan.
//
// Results are where CUB promises them: in thread 0 of the block, and in the first lane of the (logical) warp.
// Other threads get a NaN, or 0 in types without NaN, so that a use of their results shows. Sums are in the
// order of threads. Temporary storage is real shared memory, as in CUB: reuse without a barrier is a race here
// too.
#pragma once

#include <limits>
#include <type_traits>

#include "kernels/executor/cuda_words.h"

namespace cub {

struct Sum {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <class T>
  constexpr T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

namespace simt_detail {

// The result in a thread for which CUB promises no result.
template <class T>
inline T nothing() {
  if constexpr (std::numeric_limits<T>::has_quiet_NaN) return std::numeric_limits<T>::quiet_NaN();
  return T{};
}

template <int X, int Y>
inline int linear() {
  return static_cast<int>(threadIdx.x + X * (threadIdx.y + Y * threadIdx.z));
}

template <class T, int kCount>
struct Storage {
  T each[kCount];
};

}  // namespace simt_detail

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
class BlockReduce {
 public:
  using TempStorage = simt_detail::Storage<T, X * Y * Z>;
  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  template <class Op>
  T Reduce(T input, Op op, int valid = X * Y * Z) {
    const int me = simt_detail::linear<X, Y>();
    storage_.each[me] = input;
    __syncthreads();
    if (me != 0) return simt_detail::nothing<T>();
    for (int i = 1; i < valid; ++i) input = op(input, storage_.each[i]);
    return input;
  }
  template <class Op, int kItems>
  T Reduce(T (&inputs)[kItems], Op op) {
    T all = inputs[0];
    for (int i = 1; i < kItems; ++i) all = op(all, inputs[i]);
    return Reduce(all, op);
  }
  T Sum(T input, int valid = X * Y * Z) { return Reduce(input, cub::Sum(), valid); }
  template <int kItems>
  T Sum(T (&inputs)[kItems]) {
    return Reduce(inputs, cub::Sum());
  }

 private:
  TempStorage& storage_;
};

template <class T, int kLanes = 32>
class WarpReduce {
 public:
  struct TempStorage {
    int unused;
  };
  explicit WarpReduce(TempStorage&) {}

  template <class Op>
  T Reduce(T input, Op op, int valid = kLanes) {
    static_assert(kLanes > 0 && kLanes <= 32 && (kLanes & (kLanes - 1)) == 0, "lanes: 1, 2, 4, 8, 16 or 32");
    const int lane = static_cast<int>(simt::current->linear % 32), first = lane / kLanes * kLanes;
    const unsigned mask = static_cast<unsigned>(((uint64_t{1} << kLanes) - 1) << first);
    for (int step = 1; step < kLanes; step *= 2) {
      const T other = __shfl_down_sync(mask, input, static_cast<unsigned>(step), kLanes);
      if (lane - first + step < valid) input = op(input, other);
    }
    return lane == first ? input : simt_detail::nothing<T>();
  }
  T Sum(T input, int valid = kLanes) { return Reduce(input, cub::Sum(), valid); }
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
class BlockScan {
 public:
  using TempStorage = simt_detail::Storage<T, X * Y * Z>;
  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  template <class Op>
  void InclusiveScan(T input, T& output, Op op) {
    const int me = put(input);
    output = storage_.each[0];
    for (int i = 1; i <= me; ++i) output = op(output, storage_.each[i]);
  }
  template <class Op>
  void ExclusiveScan(T input, T& output, T first, Op op) {
    const int me = put(input);
    output = first;
    for (int i = 0; i < me; ++i) output = op(output, storage_.each[i]);
  }
  void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
  void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T{}, cub::Sum()); }
  void InclusiveSum(T input, T& output, T& all) {
    InclusiveSum(input, output);
    all = total();
  }
  void ExclusiveSum(T input, T& output, T& all) {
    ExclusiveSum(input, output);
    all = total();
  }

 private:
  int put(T input) {
    const int me = simt_detail::linear<X, Y>();
    storage_.each[me] = input;
    __syncthreads();
    return me;
  }
  T total() const {
    T all = storage_.each[0];
    for (int i = 1; i < X * Y * Z; ++i) all = all + storage_.each[i];
    return all;
  }

  TempStorage& storage_;
};

}  // namespace cub
