// The columns of a row that has a block of its own. If there are more warps than groups of 32 columns,
// several warps share a group, and each takes a part of the keys.
//
//   each_column<G>(in, team, 0, team.keys, Sizes{}, [&](Sizes& to, int key, int c) { ... },   // for each key
//                  [](Sizes& to, const Sizes& of) { ... },                                    // of the next keys
//                  [&](int c, const Sizes& all) { ... });                                     // once a column
#pragma once

#include "reference/cuda/row.cuh"

namespace attnfuzz::cuda {

// The warps of a block divide columns and keys in this way.
struct Division {
  int together;  // groups of 32 columns at the same time
  int parts;     // of the keys
  __device__ explicit Division(int columns) {
    const int warps = static_cast<int>(blockDim.x) / 32, groups = max((columns + 31) / 32, 1);
    together = min(groups, warps);
    parts = warps / together;
  }
  __device__ int group() const { return static_cast<int>(threadIdx.x) / 32 % together; }
  // `parts` or more for the warps that are left over: they take no keys.
  __device__ int part() const { return static_cast<int>(threadIdx.x) / 32 / together; }
  __device__ int column(int first) const { return (first + group()) * 32 + static_cast<int>(threadIdx.x) % 32; }
  // The place of this thread's column among those of `together` groups.
  __device__ int place() const { return group() * 32 + static_cast<int>(threadIdx.x) % 32; }
  __device__ int places() const { return together * 32; }
};

// Joins what the parts have found, in the order of the parts. Only part 0 gets the result. Run by the whole
// block; `mine`: this thread has a column and a part.
template <class T, class Join>
__device__ inline void join_parts(const Team& team, const Division& by, bool mine, T& found, Join join) {
  static_assert(sizeof(T) * kThreadsAlone <= kRoomAlone);
  if (by.parts == 1) return;
  auto* const room = reinterpret_cast<T*>(team.room);
  __syncthreads();
  if (mine && by.part() > 0) room[(by.part() - 1) * by.places() + by.place()] = found;
  __syncthreads();
  if (mine && by.part() == 0)
    for (int part = 1; part < by.parts; ++part) join(found, room[(part - 1) * by.places() + by.place()]);
}

// Calls visit(found, key, c) for the keys [begin, end) in order, and take(c, found) for each column. A block
// that has room divides the keys.
template <class G, class T, class Visit, class Join, class Take>
__device__ inline void each_column(const RowsInput& in, const Team& team, int begin, int end, const T& nothing,
                                   Visit visit, Join join, Take take) {
  if (G::kWarp || team.room == nullptr) {
    for (int c = G::rank(); c < in.dim_v; c += G::size()) {
      T found = nothing;
      for (int k = begin; k < end; ++k) visit(found, k, c);
      take(c, found);
    }
    return;
  }
  const Division by(in.dim_v);
  const int keys = end - begin, from = begin + static_cast<int>(int64_t{keys} * by.part() / by.parts),
            to = begin + static_cast<int>(int64_t{keys} * (by.part() + 1) / by.parts);
  for (int first = 0; first * 32 < in.dim_v; first += by.together) {
    const int c = by.column(first);
    const bool mine = by.part() < by.parts && c < in.dim_v;
    T found = nothing;
    if (mine) {
#pragma unroll 4
      for (int k = from; k < to; ++k) visit(found, k, c);
    }
    join_parts(team, by, mine, found, join);
    if (mine && by.part() == 0) take(c, found);
  }
}

}  // namespace attnfuzz::cuda
