// Finds writes of a kernel far from all tensors.
//
// Redzones reach up to 16 KiB beyond a tensor. Further away, two things are checked: the rest of a tensor's
// first and last page, which is filled and checked like a redzone; and pages that did not exist before the
// call.
//
//   Strays strays(arena);
//   strays.fill(extent);              // once a tensor is laid out
//   strays.before();                  // before a call
//   if (auto fault = strays.after(extents)) ...
//
// A new page that holds only zeros was read, or zeros were written to it; it is not reported. Pages that an
// earlier, longer tensor left before this one's first page are not checked either. A failing file is
// replayed without earlier cases.
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
  // extents: by TensorId. New pages are given back, so that the next call starts without them.
  std::optional<MemoryFault> after(std::span<const Extent> extents) const;

 private:
  std::optional<MemoryFault> beside(const Extent& e, TensorId t) const;
  std::optional<MemoryFault> new_pages(std::span<const Extent> extents) const;

  Arena& arena_;
  uint64_t existed_ = 0;
};

}  // namespace attnfuzz
