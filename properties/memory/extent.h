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
//
// Where columns are scattered `row` is the address of the first alone: gather() and scatter() take
// the others along, and there is one stretch, filled whole.
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
  std::byte* data = nullptr;  // the lowest element
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  std::vector<std::span<std::byte>> touched;
  uint64_t hash = 0;  // of all of `touched`, of inputs

  std::byte* elements_end() const { return data + g.span_bytes; }
  std::byte* first() const { return data + g.first * g.element_bytes; }  // element (0,0,0,0)
  std::byte* row(int64_t b, int64_t h, int64_t s) const {
    return first() + (b * g.stride[0] + h * g.stride[1] + s * g.stride[2]) * g.element_bytes;
  }
  // The elements of a row, in order, to and from a dense copy of it.
  void gather(const std::byte* row, std::byte* dense) const;
  void scatter(const std::byte* dense, std::byte* row) const;
  // Of one stretch: what else there is of its first and its last page. Nothing else lies there.
  std::span<std::byte> page_before() const;
  std::span<std::byte> page_after() const;
  bool has_gaps() const { return g.span_bytes != g.size[0] * g.size[1] * g.size[2] * g.row_bytes(); }
  int64_t touched_bytes() const;
};

Extent extent_of(const Case& c, TensorId t, Arena& arena);

template <typename Visit>
void for_each_row(const Extent& e, Visit&& visit) {
  if (!e.g.present || e.g.empty()) return;
  const auto [outer, middle, inner] = e.g.order;
  const auto by_address = [&e](int dimension, int64_t n) {
    return e.g.stride[dimension] < 0 ? e.g.size[dimension] - 1 - n : n;
  };
  Index at;
  for (int64_t i = 0; i < e.g.size[outer]; ++i) {
    at.n[outer] = by_address(outer, i);
    for (int64_t j = 0; j < e.g.size[middle]; ++j) {
      at.n[middle] = by_address(middle, j);
      for (int64_t k = 0; k < e.g.size[inner]; ++k) {
        at.n[inner] = by_address(inner, k);
        visit(static_cast<const Index&>(at), e.row(at.n[0], at.n[1], at.n[2]));
      }
    }
  }
}

// The same with each row as a dense copy, of those that are scattered.
template <typename Visit>
void for_each_dense_row(const Extent& e, Visit&& visit) {
  if (!e.g.scattered()) return for_each_row(e, [&](const Index& at, const std::byte* row) { visit(at, row); });
  std::vector<std::byte> dense(static_cast<size_t>(e.g.row_bytes()));
  for_each_row(e, [&](const Index& at, const std::byte* row) {
    e.gather(row, dense.data());
    visit(at, static_cast<const std::byte*>(dense.data()));
  });
}

// What guards, gaps and poisoned outputs hold: a 32-bit pattern, repeated by
// address (every pattern is the same in both halves, or whole for fp32).
void fill_pattern(std::byte* begin, std::byte* end, uint32_t pattern);
// The first byte that differs; nullptr if none does.
const std::byte* differs_from(const std::byte* begin, const std::byte* end, uint32_t pattern);

// XXH3-64 over all that is touched; and over the elements alone, in index order
// (0 if there is no such tensor).
uint64_t hash_touched(const Extent& e);
uint64_t hash_elements(const Extent& e);

}  // namespace attnfuzz
