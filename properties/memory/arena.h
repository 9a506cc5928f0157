// Guarded memory: one slot for each tensor, shared with the process that runs the kernel.
//
// The arena is one sparse anonymous file, mapped here and by the worker. Each slot ends in an unmapped
// page, so a tensor placed against it faults on the first byte that is accessed too far. A slot is large
// enough for strides beyond 2^31 elements; only the touched pages exist.
//
//   |<- page, unmapped ->|<- slot i: kSlotBytes ->|<- page, unmapped ->| slot i+1 ...
//
// Because the file is sparse, its existing pages reveal a write far from all tensors: such a write creates
// a page. Creating pages is slow, so pages stay from one case to the next. Tensors of up to kLead bytes END
// kLead bytes into their slot, and no earlier case has created a page beyond that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "properties/case/places/geometry.h"
#include "properties/memory/poison.h"

namespace attnfuzz {

// Bytes [begin, end) of the arena that belong to a tensor of a case: elements, redzones or filled gaps. No
// other bytes may be touched.
struct MemoryRange {
  TensorId tensor;
  uint64_t begin, end;  // offsets in the arena
};

inline constexpr uint64_t kArenaPage = 4096;
// The bytes of an arena with a slot for each of so many tensors.
constexpr uint64_t arena_bytes(uint64_t tensors) { return kArenaPage + tensors * (kSlotBytes + kArenaPage); }

class Arena {
 public:
  static constexpr uint64_t kPage = kArenaPage;
  static constexpr uint64_t kSlotBytes = attnfuzz::kSlotBytes;  // 32 GiB
  static constexpr uint64_t kBytes = arena_bytes(kTensorCount);

  Arena();  // creates the file; throws std::system_error
  // Maps an arena that was created elsewhere; does not own fd. If `fenced`, the arena reserves kFence bytes of
  // addresses that begin at a multiple of kFence, and lies kFenceBefore bytes behind their beginning. Nothing else is
  // ever mapped there.
  explicit Arena(int fd, bool fenced = false);
  // Half of the fence holds 63 slots and their pages. The arena begins a MiB before the middle, so it may have 64.
  static constexpr uint64_t kFence = uint64_t{1} << 42, kFenceBefore = kFence / 2 - (uint64_t{1} << 20);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_; }
  std::byte* base() const { return base_; }
  std::byte* slot(TensorId t) const { return base_ + slot_offset(t); }
  std::byte* slot_end(TensorId t) const { return slot(t) + kSlotBytes; }
  static constexpr uint64_t slot_offset(TensorId t) {
    return kPage + static_cast<uint64_t>(t) * (kSlotBytes + kPage);
  }
  // Offset of an address from base(); kNowhere for nullptr.
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t offset(const void* p) const;
  void* at(uint64_t offset) const;

  // The start, within its slot, of a tensor of this many bytes (redzones included) that ends kLead bytes into
  // the slot, at a page's end. A larger tensor starts at 0.
  static constexpr uint64_t kLead = uint64_t{64} << 20;
  static constexpr uint64_t lead(uint64_t bytes) {
    return bytes > kLead ? 0 : kLead - (bytes + kPage - 1) / kPage * kPage;
  }
  // Records that a case has laid out [begin, end), so its pages may exist until forget(). True if the range
  // ends kLead bytes into the slot or at the slot's end; false: the slot must be forgotten with the case.
  bool keep(TensorId t, const std::byte* begin, const std::byte* end);

  // The bytes of the arena that exist.
  uint64_t existing() const;
  // Calls visit() for each existing page of a slot that no keep() has recorded, by ascending address.
  void for_each_new_page(TensorId t, const std::function<void(std::byte*)>& visit) const;
  // Gives one page back; it no longer exists.
  void forget_page(std::byte* page);

  // The patterns around the tensors that are laid out.
  PoisonPatterns poison;

  // Gives the pages of a slot back to the system. Their content becomes 0. Its time depends on the pages that exist, up
  // to kMostParts stretches of them, and not on those that existed earlier.
  void forget(TensorId t);
  static constexpr int kMostParts = 1024;

 private:
  // A stretch of the file that exists: offsets, multiples of kPage.
  struct Part {
    uint64_t begin, end;
  };
  // The first one in [begin, end), if there is any.
  std::optional<Part> first_existing(uint64_t begin, uint64_t end) const;
  void give_back(uint64_t begin, uint64_t end);

  int fd_ = -1;
  bool owned_ = false;
  std::byte* base_ = nullptr;
  // Bytes before kLead, and before the end of each slot, that may exist.
  uint64_t kept_[kTensorCount] = {}, kept_at_end_[kTensorCount] = {};
};

}  // namespace attnfuzz
