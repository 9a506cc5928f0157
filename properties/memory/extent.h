// A tensor's stretch of guarded memory: elements, gaps and guards.
//
//   begin          data                                           end
//   | guard before | row | gap | row | gap ...              row | guard after |
//
// `touched` lists what is written when a case is laid out, in ascending order:
// one stretch for a compact tensor, one around each row (or block of rows) of a
// spread one. Everything else of the slot is left alone.
//
//   Extent e = extent_of(c, TensorId::kO, arena);
//   for_each_row(e, [&](const Index& at, std::byte* row) { ... });   // by ascending address
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "properties/case/geometry.h"
#include "properties/memory/arena.h"

namespace attnfuzz {

struct Index {
  int64_t n[3] = {};  // batch, head, and query or key; 0 where broadcast
};

struct Extent {
  Geometry g;
  std::byte* data = nullptr;  // the first element
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  std::vector<std::span<std::byte>> touched;
  uint64_t hash = 0;  // of all of `touched`, of inputs

  std::byte* elements_end() const { return data + g.span_bytes; }
  std::byte* row(int64_t b, int64_t h, int64_t s) const {
    return data + (b * g.stride[0] + h * g.stride[1] + s * g.stride[2]) * g.element_bytes;
  }
  bool has_gaps() const { return g.span_bytes != g.size[0] * g.size[1] * g.size[2] * g.row_bytes(); }
  int64_t touched_bytes() const;
};

Extent extent_of(const Case& c, TensorId t, Arena& arena);

template <typename Visit>
void for_each_row(const Extent& e, Visit&& visit) {
  if (!e.g.present || e.g.empty()) return;
  const auto [outer, middle, inner] = e.g.order;
  Index at;
  for (at.n[outer] = 0; at.n[outer] < e.g.size[outer]; ++at.n[outer]) {
    for (at.n[middle] = 0; at.n[middle] < e.g.size[middle]; ++at.n[middle]) {
      for (at.n[inner] = 0; at.n[inner] < e.g.size[inner]; ++at.n[inner]) {
        visit(static_cast<const Index&>(at), e.row(at.n[0], at.n[1], at.n[2]));
      }
    }
  }
}

// What guards, gaps and prefilled outputs hold: a 32-bit pattern, repeated by
// address (every pattern is the same in both halves, or whole for fp32).
void fill_pattern(std::byte* begin, std::byte* end, uint32_t pattern);
// The first byte that differs; nullptr if none does.
const std::byte* differs_from(const std::byte* begin, const std::byte* end, uint32_t pattern);

// XXH3-64 over all that is touched; and over the elements alone, in index order
// (0 if there is no such tensor).
uint64_t hash_touched(const Extent& e);
uint64_t hash_elements(const Extent& e);

}  // namespace attnfuzz
