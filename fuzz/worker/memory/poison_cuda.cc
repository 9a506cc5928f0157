#include <cuda_runtime.h>

#include <cstddef>

#include "fuzz/worker/memory/poison.h"

namespace {

// Past both ends, for what is read there.
constexpr size_t kMargin = 256;
constexpr int kPoison = 0xff;

bool done(cudaError_t error) {
  // Whoever asked is told by a null pointer; it must not find an error of ours.
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess;
}

// Without a threshold the system takes back at each wait what is not in use.
bool keep_memory(int device) {
  cudaMemPool_t pool;
  uint64_t all = UINT64_MAX;
  return done(cudaDeviceGetDefaultMemPool(&pool, device)) &&
         done(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

}  // namespace

void* attnfuzz_device_memory(ssize_t bytes, int32_t device, void* stream) {
  static const bool kept = keep_memory(device);
  const auto on = static_cast<cudaStream_t>(stream);
  const size_t all = static_cast<size_t>(bytes) + 2 * kMargin;
  void* memory = nullptr;
  if (!kept || !done(cudaMallocAsync(&memory, all, on))) return nullptr;
  if (!done(cudaMemsetAsync(memory, kPoison, all, on))) return nullptr;
  return static_cast<std::byte*>(memory) + kMargin;
}

void attnfuzz_free_device_memory(void* memory, ssize_t bytes, int32_t, void* stream) {
  if (memory == nullptr) return;
  const auto on = static_cast<cudaStream_t>(stream);
  void* begin = static_cast<std::byte*>(memory) - kMargin;
  done(cudaMemsetAsync(memory, kPoison, static_cast<size_t>(bytes), on));
  done(cudaFreeAsync(begin, on));
}
