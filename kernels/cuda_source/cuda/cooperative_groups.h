// <cooperative_groups.h> on the executor: the block, its tiles, coalesced threads, and their reductions. A grid
// cannot be synchronised, because its blocks run one after the other.
#pragma once

#include "kernels/cuda_source/cuda/api.h"

namespace cooperative_groups {

class thread_block {
 public:
  static void sync(simt::Place here = simt::Place::now()) { __syncthreads(here); }
  static unsigned thread_rank() { return simt::current->linear; }
  static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return {blockIdx.x, blockIdx.y, blockIdx.z}; }
  static dim3 thread_index() { return {threadIdx.x, threadIdx.y, threadIdx.z}; }
  static dim3 group_dim() { return {blockDim.x, blockDim.y, blockDim.z}; }
  static dim3 dim_threads() { return group_dim(); }
};
inline thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  static bool is_valid() { return false; }
  static void sync(simt::Place here = simt::Place::now()) {
    simt::fault(ATTN_REPORT_LAUNCH, simt::current, here,
                "a barrier of the whole grid: the executor runs blocks one after the other");
  }
  static unsigned long long thread_rank() {
    return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y * gridDim.x + blockIdx.y * gridDim.x +
            blockIdx.x) *
               thread_block::size() +
           thread_block::thread_rank();
  }
  static unsigned long long size() {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z * thread_block::size();
  }
};
inline grid_group this_grid() { return {}; }

// Threads of a warp that work together: the lanes of `mask`. The calling thread has rank `rank` among them.
class warp_part {
 public:
  explicit warp_part(unsigned mask) : mask_(mask) {}
  unsigned thread_rank() const {
    return static_cast<unsigned>(__popc(mask_ & ((1u << simt::current->linear % 32) - 1)));
  }
  unsigned size() const { return static_cast<unsigned>(__popc(mask_)); }
  unsigned num_threads() const { return size(); }
  void sync(simt::Place here = simt::Place::now()) const { __syncwarp(mask_, here); }
  template <class T>
  T shfl(T value, int rank, simt::Place here = simt::Place::now()) const {
    return __shfl_sync(mask_, value, lane(static_cast<unsigned>(rank) % size()), 32, here);
  }
  template <class T>
  T shfl_down(T value, unsigned by, simt::Place here = simt::Place::now()) const {
    const unsigned rank = thread_rank();
    return __shfl_sync(mask_, value, lane(rank + by < size() ? rank + by : rank), 32, here);
  }
  template <class T>
  T shfl_up(T value, unsigned by, simt::Place here = simt::Place::now()) const {
    const unsigned rank = thread_rank();
    return __shfl_sync(mask_, value, lane(rank >= by ? rank - by : rank), 32, here);
  }
  template <class T>
  T shfl_xor(T value, unsigned by, simt::Place here = simt::Place::now()) const {
    const unsigned rank = thread_rank() ^ by;
    return __shfl_sync(mask_, value, lane(rank < size() ? rank : thread_rank()), 32, here);
  }
  int any(int predicate, simt::Place here = simt::Place::now()) const {
    return __any_sync(mask_, predicate, here);
  }
  int all(int predicate, simt::Place here = simt::Place::now()) const {
    return __all_sync(mask_, predicate, here);
  }
  unsigned ballot(int predicate, simt::Place here = simt::Place::now()) const {
    const unsigned votes = __ballot_sync(mask_, predicate, here);
    unsigned ranks = 0;
    for (unsigned rank = 0; rank < size(); ++rank) ranks |= (votes >> lane(rank) & 1) << rank;
    return ranks;
  }
  unsigned mask() const { return mask_; }

 private:
  int lane(unsigned rank) const {
    unsigned rest = mask_;
    while (rank-- > 0) rest &= rest - 1;
    return __ffs(static_cast<int>(rest)) - 1;
  }
  unsigned mask_;
};

class coalesced_group : public warp_part {
 public:
  using warp_part::warp_part;
};
inline coalesced_group coalesced_threads(simt::Place here = simt::Place::now()) {
  return coalesced_group(__activemask(here));
}

// The number of a tile among the tiles of its parent, and how many the parent has. A tile whose type does not
// name the parent keeps both.
template <unsigned kSize, class Parent>
struct tile_number {
  static unsigned meta_group_rank() { return Parent::thread_rank() / kSize; }
  static unsigned meta_group_size() { return (Parent::size() + kSize - 1) / kSize; }
};
template <unsigned kSize>
struct tile_number<kSize, void> {
  unsigned meta_group_rank() const { return rank_; }
  unsigned meta_group_size() const { return size_; }

 protected:
  unsigned rank_ = 0, size_ = 1;
};

template <unsigned kSize, class Parent = void>
class thread_block_tile : public warp_part, public tile_number<kSize, Parent> {
 public:
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "tiles of 1, 2, 4, 8, 16 or 32 threads");
  thread_block_tile()
      : warp_part(kSize == 32 ? ~0u
                              : ((1u << kSize % 32) - 1) << (simt::current->linear % 32 / kSize * kSize)) {}
  // Converts a tile that knows its parent: thread_block_tile<32> warp = tiled_partition<32>(block).
  template <class Other>
    requires std::is_void_v<Parent>
  thread_block_tile(const thread_block_tile<kSize, Other>& tile) : thread_block_tile() {
    this->rank_ = tile.meta_group_rank();
    this->size_ = tile.meta_group_size();
  }
  static constexpr unsigned size() { return kSize; }
  static constexpr unsigned num_threads() { return kSize; }
  static unsigned thread_rank() { return simt::current->linear % kSize; }
};
using thread_group = warp_part;

template <unsigned kSize, class Parent>
inline thread_block_tile<kSize, Parent> tiled_partition(const Parent&) {
  static_assert(
      requires { Parent::thread_rank(); }, "tiles are of the block, or of a tile whose type has its parent");
  return {};
}

template <class Group>
inline void sync(const Group& group, simt::Place here = simt::Place::now()) {
  group.sync(here);
}

// --- <cooperative_groups/reduce.h> ---

template <class T = void>
struct plus {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
};
template <class T = void>
struct greater {
  template <class V>
  V operator()(V a, V b) const {
    return a < b ? b : a;
  }
};
template <class T = void>
struct less {
  template <class V>
  V operator()(V a, V b) const {
    return b < a ? b : a;
  }
};
template <class T = void>
struct bit_or {
  template <class V>
  V operator()(V a, V b) const {
    return a | b;
  }
};
template <class T = void>
struct bit_and {
  template <class V>
  V operator()(V a, V b) const {
    return a & b;
  }
};

template <class Group, class T, class Of>
inline T reduce(const Group& group, T value, Of of, simt::Place here = simt::Place::now()) {
  for (unsigned by = 1; by < 32; by *= 2) {
    const unsigned rank = group.thread_rank(), size = group.size();
    // A tree over the ranks, for any number of ranks.
    const T other = group.shfl_down(value, by, here);
    if (by < size && rank % (2 * by) == 0 && rank + by < size) value = of(value, other);
  }
  return group.shfl(value, 0, here);
}

// --- <cooperative_groups/memcpy_async.h> ---

template <class Group, class T>
inline void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  auto* out = reinterpret_cast<char*>(to);
  auto* in = reinterpret_cast<const char*>(from);
  const uintptr_t both = reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(in) | bytes;
  const size_t step = both % 16 == 0 ? 16 : both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : 1;
  for (size_t at = group.thread_rank() * step; at < bytes; at += group.size() * step) {
    if (step == 1) {
      out[at] = in[at];
    } else {
      simt::copy_async(out + at, in + at, static_cast<uint32_t>(step), static_cast<uint32_t>(step),
                       simt::Place::now());
    }
  }
  simt::copy_commit();
}
template <class Group>
inline void wait(const Group& group, simt::Place here = simt::Place::now()) {
  simt::copy_wait(0);
  group.sync(here);
}
template <unsigned kStages, class Group>
inline void wait_prior(const Group& group, simt::Place here = simt::Place::now()) {
  simt::copy_wait(kStages);
  group.sync(here);
}

}  // namespace cooperative_groups
