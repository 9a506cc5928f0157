// The part of a batch in the kernel's process. It launches the cases of the whole batch, the slowest first
// (schedule.h), on several streams, and waits once, at the end.
//
//   auto device = open_device(&why);                 // it allocates memory when it is needed
//   device->plan(kernel, limit, of, calls, results);           // results[i].plan
//   device->run(kernel, limit, of, calls, results, readback);  // results[i].counts; Readback of calls[i]
//
// A fault of one case ends the whole batch. The caller then runs the cases one by one to find the guilty one.
// If the device has too little memory, nothing was judged (kNoMemory).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fuzz/batch/device/call.h"

namespace attnfuzz::batch {

// A failure begins with this text if the device had too little free memory. It says nothing about the kernel,
// and the device can still be used.
inline constexpr std::string_view kNoMemory = "no free memory on the device: ";
inline bool is_no_memory(std::string_view failure) { return failure.starts_with(kNoMemory); }

// Memory for page-end tensors, in stretches. Nothing is mapped behind a stretch, so an access
// beyond it faults. It also has wide address ranges for spread tensors, of which only a few pages
// are mapped.
class PageEnds {
 public:
  virtual ~PageEnds() = default;
  static constexpr int kStretches = 512;
  static constexpr uint64_t kFarBytes = kSlotBytes;
  struct Far {
    int stretch;
    uint64_t begin, end;  // the part of the stretch's range that needs memory, in bytes
  };
  // Makes far() of a stretch known, without memory. Returns nothing, or the error.
  virtual std::optional<std::string> reserve(int stretch) = 0;
  // Frees the memory that reach() keeps for later batches; the ranges have none then. Returns nothing, or the
  // error.
  virtual std::optional<std::string> give_back() = 0;
  // Maps memory for all these parts, and may unmap all others. Returns nothing, or the error.
  virtual std::optional<std::string> reach(std::span<const Far> wanted) = 0;
  // The start of a range that was reserved, or in which reach() mapped memory, a multiple of 4096. Nothing is
  // mapped behind its kFarBytes.
  virtual std::byte* far(int stretch) = 0;
  // Makes a stretch of at least this many bytes. Returns nothing, or the error.
  virtual std::optional<std::string> room(int stretch, uint64_t bytes) = 0;
  // The end of a stretch, a multiple of 4096.
  virtual std::byte* end(int stretch) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // Makes room for the batch, and gets the kernel's plan for each call. `limit`, called with `of`,
  // lowers an env to the device's limits. Returns nothing, or what failed.
  virtual std::optional<std::string> plan(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
                                          std::span<const Call> calls, std::span<Result> results) = 0;
  // Runs calls, as planned. `readback` stays where it is from run to run.
  virtual std::optional<std::string> run(const attn_kernel& kernel, void (*limit)(void*, attn_env&), void* of,
                                         std::span<const Call> calls, std::span<Result> results,
                                         std::span<std::byte> readback) = 0;
};

// nullptr, with a reason: no device, no memory.
std::unique_ptr<Device> open_device(std::unique_ptr<PageEnds> page_ends, std::string* why);

}  // namespace attnfuzz::batch
