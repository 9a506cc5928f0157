#include <cuda_runtime_api.h>

#include <stdexcept>

#include "reference/calibrate/device.h"

namespace attn {
namespace {

void check(cudaError_t error, const char* step) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(step) + ": " + cudaGetErrorString(error));
}

}  // namespace

Device open_device() {
  Device device;
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  device.name = properties.name;
  device.sweep_blocks = static_cast<uint32_t>(properties.multiProcessorCount) * 8;
  device.sweep_threads = 128;
  device.has_warpgroups = properties.major == 9 && properties.minor == 0;
  device.env.sm_count = properties.multiProcessorCount;
  device.env.compute_capability = 10 * properties.major + properties.minor;
  return device;
}

void* device_allocate(size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void device_free(void* memory) { cudaFree(memory); }

void device_write(void* to, const void* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}

void device_read(void* to, const void* from, size_t bytes) {
  check(cudaDeviceSynchronize(), "waiting for a kernel");
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}

}  // namespace attn
