// The parts of a device that a calibration needs besides kernels: memory, and an environment for calls.
// device_cpu.cc and device_cuda.cu both implement it; an executable links one of them.
//
//   Device device = open_device();
//   DeviceArray<float> values(n);
//   ... attn::launch(kernel, grid, block, 0, &device.env, values.data(), n) ...
//   std::vector<float> host = values.read();  // waits for what was launched
//
// Everything here throws std::runtime_error with the device's message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attn {

struct Device {
  attn_env env = {};
  std::string name;           // "NVIDIA H200"
  uint32_t sweep_blocks = 1;  // enough threads to keep the device busy
  uint32_t sweep_threads = 32;
  uint32_t default_stride = 1;  // of a sweep that takes at most about a minute
  // Seeds that change how products are rounded; one if there is no choice.
  std::vector<uint64_t> roundings = {0};
  bool has_warpgroups = true;  // products of sm_90a
};

Device open_device();

void* device_allocate(size_t bytes);
void device_free(void* memory);
void device_write(void* to, const void* from, size_t bytes);
void device_read(void* to, const void* from, size_t bytes);

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count)
      : count_(count), data_(static_cast<T*>(device_allocate(count * sizeof(T)))) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    device_write(data_, values.data(), count_ * sizeof(T));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { device_free(data_); }

  T* data() { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    device_read(values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  size_t count_;
  T* data_;
};

}  // namespace attn
