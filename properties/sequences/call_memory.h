// The arrays of the calls of a session, in a target's arena.
//
// Every array lies near the end of its slot, between redzones, at the same address in all calls that give it the same
// size: a plan that is used again finds what it knew. The pools of K and V keep their place for the whole session.
// Where a call has no array but one before it had, there is poison, and nobody may write it.
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
  // Gives the pages back.
  ~CallMemory();
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // Copies the content into the slot of tensor t, and forgets the array that t had. `changes`: a call may write it.
  std::byte* lay(TensorId t, std::span<const std::byte> content, bool changes = false, uint64_t align = kRedzone);
  // Takes all arrays out but the pools.
  void clear();
  std::span<std::byte> bytes(TensorId t);
  std::vector<MemoryRange> ranges() const;
  // Names a redzone or a read-only array that a call has written, in a sentence; nothing if none was.
  std::optional<std::string> written_beside() const;

 private:
  // The end of a tensor's slot that arrays have used so far.
  struct Used {
    std::byte* begin;
    std::vector<std::byte> before;  // what it held when the call began
    size_t first, size;             // of the array
    bool changes, there;
  };
  static constexpr size_t kMostKept = size_t{1} << 20;  // bytes; what is longer is given back with its array

  Arena& arena_;
  std::map<TensorId, Used> used_;
};

}  // namespace attnfuzz::sequences
