// Copies tensors to the kernel and back. Each worker is linked with either memory_cpu.cc, where the
// kernel works in the mapped arena, or memory_cuda.cc, where the device has a mirror of the arena.
//
//   auto memory = open_memory(arena, &error);
//   memory->to_kernel(ranges) ... kernel->run(...) ... memory->finish(stream) ... memory->from_kernel(ranges)
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fuzz/batch/device/device.h"
#include "kernels/attention.h"
#include "properties/judge/target/target.h"
#include "properties/memory/arena.h"

namespace attnfuzz::worker {

// Empty on success; otherwise the string says what failed.
using Failure = std::optional<std::string>;

class Memory {
 public:
  virtual ~Memory() = default;
  virtual attn_backend backend() const = 0;
  // For a verdict: GPU, driver, runtime. Empty on the CPU.
  virtual std::string device() const = 0;
  // Lowers the env that a case asks for to the limits of this device.
  virtual void limit(attn_env& env) const = 0;
  // The address in the kernel's memory for this offset in the arena.
  virtual void* address(uint64_t offset) = 0;
  // Checks that the ranges fit into the device's memory.
  virtual Failure fits(std::span<const MemoryRange> ranges) = 0;
  virtual Failure to_kernel(std::span<const MemoryRange> ranges, int stream) = 0;
  virtual void* stream(int index) = 0;
  // Waits until all launched work has ended, and returns the kernel's error.
  virtual Failure finish(int stream) = 0;
  virtual Failure from_kernel(std::span<const MemoryRange> ranges, int stream) = 0;
  // Allocates room for `capacity` probe values that the kernel can write, sets the count to 0, and
  // sets the pointers in `probe`. The room is valid until the next call.
  virtual Failure open_probe(uint64_t capacity, attn_probe& probe) = 0;
  // Copies the recorded values after finish(). `values` has room for `capacity` of them.
  virtual Failure read_probe(const attn_probe& probe, float* values, uint64_t* used) = 0;
  // The device that judges batches. It writes results into `readback`, which must stay at its
  // address. nullptr, with a reason, if this worker cannot judge batches.
  virtual batch::Device* batch_device(std::span<std::byte> readback, std::string* why) {
    (void)readback;
    *why = "only a worker on a GPU can";
    return nullptr;
  }
};

// nullptr, with a reason, if the device cannot be used.
std::unique_ptr<Memory> open_memory(Arena& arena, std::string* error);

}  // namespace attnfuzz::worker
