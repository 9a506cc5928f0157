#include <cstdlib>
#include <cstring>
#include <new>

#include "reference/calibrate/device.h"

namespace attn {

Device open_device() {
  Device device;
  device.name = "the CPU executor";
  device.sweep_blocks = 1;
  device.sweep_threads = 32;
  device.default_stride = 3;
  device.roundings = {0, 8};  // kernels/executor/threads/schedule.h: to nearest, truncating
  return device;
}

void* device_allocate(size_t bytes) {
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void device_free(void* memory) { std::free(memory); }
void device_write(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void device_read(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace attn
