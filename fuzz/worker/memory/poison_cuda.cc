#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fuzz/worker/memory/poison.h"

namespace {

// Poison before and behind each block, for reads beyond its ends.
constexpr size_t kMargin = 256;
constexpr int kPoison = 0xff;
// Freed blocks of at most kLargestKept bytes are kept for reuse, at most kMostKept of each size.
constexpr size_t kLargestKept = size_t{1} << 20, kMostKept = 16;

bool done(cudaError_t error) {
  // A null pointer reports the failure to the caller. Clears the error, so that later code does not
  // find it.
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

// Sets the release threshold. Without it, the driver returns unused memory to the system at each wait.
bool keep_memory(int device) {
  cudaMemPool_t pool;
  uint64_t all = UINT64_MAX;
  return done(cudaDeviceGetDefaultMemPool(&pool, device)) &&
         done(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

// The whole size of a block with `bytes` between its margins. It is rounded to one of a few sizes, so that
// freed blocks can be reused.
size_t whole(size_t bytes) {
  const size_t all = bytes + 2 * kMargin;
  return all <= kLargestKept ? std::bit_ceil(all) : all;
}

// Freed blocks that are all poison, by stream and size. They may be reused only on that stream, whose later
// work runs after the poisoning.
class Kept {
 public:
  std::byte* take(cudaStream_t stream, size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& blocks = blocks_[{stream, bytes}];
    if (blocks.empty()) return nullptr;
    std::byte* const block = blocks.back();
    blocks.pop_back();
    return block;
  }
  bool keep(cudaStream_t stream, size_t bytes, std::byte* block) {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& blocks = blocks_[{stream, bytes}];
    if (bytes > kLargestKept || blocks.size() == kMostKept) return false;
    blocks.push_back(block);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<cudaStream_t, size_t>, std::vector<std::byte*>> blocks_;
};

// Never destroyed: PyTorch frees after exit() has begun.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

}  // namespace

void* attnfuzz_device_memory(ssize_t bytes, int32_t device, void* stream) {
  static const bool pooled = keep_memory(device);
  const auto on = static_cast<cudaStream_t>(stream);
  const size_t all = whole(static_cast<size_t>(bytes));
  if (std::byte* block = kept().take(on, all)) return block + kMargin;
  void* memory = nullptr;
  if (!pooled || !done(cudaMallocAsync(&memory, all, on))) return nullptr;
  if (!done(cudaMemsetAsync(memory, kPoison, all, on))) return nullptr;
  return static_cast<std::byte*>(memory) + kMargin;
}

void attnfuzz_free_device_memory(void* memory, ssize_t bytes, int32_t, void* stream) {
  if (memory == nullptr) return;
  const auto on = static_cast<cudaStream_t>(stream);
  std::byte* const block = static_cast<std::byte*>(memory) - kMargin;
  const size_t all = whole(static_cast<size_t>(bytes));
  if (done(cudaMemsetAsync(block, kPoison, all, on)) && kept().keep(on, all, block)) return;
  done(cudaFreeAsync(block, on));
}
