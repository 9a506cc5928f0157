// Brings tensors to the kernel. Each worker is linked with one of
// memory_cpu.cc (the kernel works in the mapped arena) and memory_cuda.cc (the
// device has a mirror of it).
//
//   auto memory = open_memory(arena, &error);
//   memory->to_kernel(ranges) ... kernel->run(...) ... memory->finish(stream) ... memory->from_kernel(ranges)
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "fuzz/batch/device.h"
#include "kernels/attention.h"
#include "properties/judge/target.h"
#include "properties/memory/arena.h"

namespace attnfuzz::worker {

// An empty value is success; a string says what the device refused.
using Failure = std::optional<std::string>;

class Memory {
 public:
  virtual ~Memory() = default;
  virtual attn_backend backend() const = 0;
  // For a verdict: GPU, driver, runtime. Empty on the CPU.
  virtual std::string device() const = 0;
  // Lowers what the case asks for to what this device has.
  virtual void limit(attn_env& env) const = 0;
  // The address in the kernel's memory for this offset in the arena.
  virtual void* address(uint64_t offset) = 0;
  // Checks that the ranges fit into the device; says what is missing.
  virtual Failure fits(std::span<const MemoryRange> ranges) = 0;
  virtual Failure to_kernel(std::span<const MemoryRange> ranges, int stream) = 0;
  virtual void* stream(int index) = 0;
  // Waits for all that was launched; then the kernel's errors are known.
  virtual Failure finish(int stream) = 0;
  virtual Failure from_kernel(std::span<const MemoryRange> ranges, int stream) = 0;
  // Room for `capacity` numbers of a probe where the kernel finds it, used at 0:
  // fills in the request's pointers. Valid until the next call.
  virtual Failure open_probe(uint64_t capacity, attn_probe& probe) = 0;
  // Reads the recorded values, after finish(): `values` has room for `capacity`.
  virtual Failure read_probe(const attn_probe& probe, float* values, uint64_t* used) = 0;
  // That judges many cases at once, and tells of them in `readback`, which stays where it is; nullptr, with a
  // reason, where there is none.
  virtual batch::Device* batch_device(std::span<std::byte> readback, std::string* why) {
    (void)readback;
    *why = "only a worker on a GPU has one";
    return nullptr;
  }
};

// nullptr, with a reason, where the device cannot be used.
std::unique_ptr<Memory> open_memory(Arena& arena, std::string* error);

}  // namespace attnfuzz::worker
