// The arrays of the calls of a session, in a target's arena.
//
// Every array lies near the end of its slot, between redzones, at the same address in all calls that give it the same
// size: a plan that is used again finds what it knew. The pools of K and V keep their place for the whole session.
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

  // Lays an array out with this content, instead of one that the tensor had. `changes`: a call may write it.
  std::byte* lay(TensorId t, std::span<const std::byte> content, bool changes = false, uint64_t align = kRedzone);
  // Takes the array out.
  void remove(TensorId t);
  // Takes all arrays out but the pools.
  void clear();
  std::span<std::byte> bytes(TensorId t);
  std::vector<MemoryRange> ranges() const;
  // What a call has written though it must not: a redzone, or an array that does not change. A sentence.
  std::optional<std::string> written_beside() const;

 private:
  struct Array {
    std::byte* zone;          // with redzones
    std::vector<std::byte> before;  // the zone
    size_t first, size;       // of the array, within the zone
    bool changes;
  };
  Arena& arena_;
  std::map<TensorId, Array> arrays_;
};

}  // namespace attnfuzz::sequences
