// The arrays of the calls of a session, in a target's arena.
//
// Every array lies near the end of its slot, between redzones. If its size is the same in two calls, so is its
// address, because a plan that is used again may rely on it. The pools of K and V stay in place for the whole
// session. If an earlier call had an array that this call does not have, the array's memory is poisoned, and no
// call may write there.
//
//   CallMemory memory(target.arena());
//   memory.lay(TensorId::kQ, bytes_of_q);
//   target.memory(memory.ranges()); ... target.run(...);
//   if (auto fault = memory.written_beside()) ...
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "properties/memory/arena.h"

namespace attnfuzz::sequences {

class CallMemory {
 public:
  static constexpr uint64_t kRedzone = 256;  // bytes before an array, and at least as many behind it

  explicit CallMemory(Arena& arena) : arena_(arena) {}
  // Returns the pages to the system.
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // Copies the content into the slot of tensor t, in place of the array that t had. `changes`: the call may
  // write it.
  std::byte* lay(TensorId t, std::span<const std::byte> content, bool changes = false,
                 uint64_t align = kRedzone);
  // Removes all arrays except the pools.
  void clear();
  std::span<std::byte> bytes(TensorId t);
  std::vector<MemoryRange> ranges() const;
  // Names, in a sentence, a redzone or a read-only array that a call has written; nothing if none was.
  std::optional<std::string> written_beside() const;

 private:
  // The part of a tensor's slot, at its end, that arrays have used so far.
  struct Used {
    std::byte* begin;
    std::vector<std::byte> before;  // its content when the call began
    size_t first, size;             // offset and size of the current array
    bool changes, there;
  };
  static constexpr size_t kMostKept = size_t{1}
                                      << 20;  // bytes; longer used parts are unmapped with their array

  Arena& arena_;
  std::map<TensorId, Used> used_;
};

}  // namespace attnfuzz::sequences
