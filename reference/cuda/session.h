// The stream and the memory of the oracle on a GPU, as the functions of evaluate.h use them.
//
//   std::byte* inputs = session.inputs.of(bytes);
//   session.between_copies(inputs, packed.block, bytes, results, result_bytes, [&] { return launch_rows(...); });
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/attention.h"

namespace attnfuzz::cuda {

inline constexpr size_t kMostResults = size_t{512} << 20;

inline std::string in_words(const char* what, cudaError_t error) {
  return std::string("the oracle on the GPU: ") + what + ": " + cudaGetErrorName(error) + ", " +
         cudaGetErrorString(error);
}

inline void check(const char* what, cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(in_words(what, error));
}

// Thrown if there is too little free memory. The oracle still takes smaller problems.
struct NoMemory {};

// Memory that grows and is kept until the end. Throws NoMemory.
template <cudaError_t (*allocate)(void**, size_t), cudaError_t (*release)(void*)>
class Room {
 public:
  ~Room() { release(memory_); }
  std::byte* of(size_t bytes) {
    if (bytes <= size_) return memory_;
    release(memory_);
    memory_ = nullptr;
    size_ = 0;
    const size_t more = std::max<size_t>(2 * bytes, size_t{1} << 20);
    void* memory = nullptr;
    const cudaError_t error = allocate(&memory, more);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error, which NoMemory reports
      throw NoMemory();
    }
    check("memory", error);
    memory_ = static_cast<std::byte*>(memory);
    size_ = more;
    return memory_;
  }

 private:
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};
inline cudaError_t pinned(void** memory, size_t bytes) { return cudaMallocHost(memory, bytes); }
inline cudaError_t on_device(void** memory, size_t bytes) { return cudaMalloc(memory, bytes); }

template <class T>
T* at(std::byte* block, size_t offset) {
  return reinterpret_cast<T*>(block + offset);
}

// Turns an offset in the block, as pack.h sets it, into an address.
template <class T>
void relocate(T*& pointer, std::byte* block) {
  pointer = reinterpret_cast<T*>(block + reinterpret_cast<uintptr_t>(pointer));
}

struct Session {
  double least_work;
  int64_t shared_limit;  // bytes of a block
  cudaStream_t stream = nullptr;
  int blocks = 0;
  Room<pinned, cudaFreeHost> sent = {}, received = {};
  Room<on_device, cudaFree> inputs = {}, results = {}, scratch = {};

  attn_env env() const {
    attn_env env = {};
    env.size = sizeof env;
    env.stream = stream;
    env.shared_memory_limit = shared_limit;
    return env;
  }

  // Sends `block` to `to`, launches kernels, and waits for the results, which are then in `received`.
  template <class Launch>
  void between_copies(std::byte* to, const std::byte* block, size_t bytes, const std::byte* from,
                      size_t result_bytes, const Launch& launch) {
    std::byte* back = received.of(result_bytes);
    check("copying to the device", cudaMemcpyAsync(to, block, bytes, cudaMemcpyHostToDevice, stream));
    if (launch() != ATTN_OK)
      throw std::runtime_error("the oracle on the GPU: its kernels could not be launched");
    check("copying from the device", cudaMemcpyAsync(back, from, result_bytes, cudaMemcpyDeviceToHost, stream));
    check("its kernels", cudaStreamSynchronize(stream));
  }
};

}  // namespace attnfuzz::cuda
