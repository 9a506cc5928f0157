// What a kernel wrote far from all tensors.
//
// Guards reach up to 16 KiB beyond a tensor. Two things are known of what lies further away: the rest of a
// tensor's first and last page, which is filled and looked at as a guard is, and pages that did not exist
// before a call.
//
//   Strays strays(arena);
//   strays.fill(extent);              // once a tensor is laid out
//   strays.before();                  // before a call
//   if (auto fault = strays.after(extents)) ...
//
// A page that exists afterwards and holds nothing but zeros was read, or zeros were written to it: nothing is
// said of it. Nor is anything of pages that an earlier, longer tensor has left before this one's first page. A
// file that fails is replayed without earlier cases.
#pragma once

#include <optional>
#include <span>

#include "properties/memory/extent.h"
#include "properties/memory/layout.h"

namespace attnfuzz {

class Strays {
 public:
  explicit Strays(Arena& arena) : arena_(arena) {}
  void fill(const Extent& e) const;
  void before();
  // extents: by TensorId. Pages that are new are given back, so that the next call begins without them.
  std::optional<MemoryFault> after(std::span<const Extent> extents) const;

 private:
  std::optional<MemoryFault> beside(const Extent& e, TensorId t) const;
  std::optional<MemoryFault> new_pages(std::span<const Extent> extents) const;

  Arena& arena_;
  uint64_t existed_ = 0;
};

}  // namespace attnfuzz
