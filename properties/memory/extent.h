// The part of guarded memory that belongs to one tensor: elements, gaps and redzones.
//
//   begin            data                                           end
//   | redzone before | row | gap | row | gap ...              row | redzone after |
//
// `touched` lists the spans that are written when a case is laid out, in ascending order: one span for a
// compact tensor, one around each row (or block of rows) of a spread one. The rest of the slot stays
// untouched.
//
//   Extent e = extent_of(c, TensorId::kO, arena);
//   for_each_row(e, [&](const Index& at, std::byte* row) { ... });   // by ascending address
//
// If columns are scattered, `row` is the address of the first column; gather() and scatter() access the
// others. There is then one span, filled whole.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/memory/arena.h"

namespace attnfuzz {

struct Index {
  int64_t n[3] = {};  // batch, head, and query or key; 0 where broadcast
};

// Maps an index in memory to (b, h, i). Returns nothing for a row of a packed tensor that belongs to no entry.
inline std::optional<Index> logical_index(const PackedCase& packed, TensorId t, const Index& stored) {
  const std::optional<StoredRow> place = packed.owner(t, {stored.n[0], stored.n[2]});
  return place ? std::optional(Index{{place->entry, stored.n[1], place->row}}) : std::nullopt;
}

struct Extent {
  Geometry g;
  std::byte* data = nullptr;  // the lowest element
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  std::vector<std::span<std::byte>> touched;
  uint64_t hash = 0;  // of all of `touched`, for inputs

  std::byte* elements_end() const { return data + g.span_bytes; }
  std::byte* first() const { return data + g.first * g.element_bytes; }  // element (0,0,0,0)
  std::byte* row(int64_t b, int64_t h, int64_t s) const {
    return first() + (b * g.stride[0] + h * g.stride[1] + s * g.stride[2]) * g.element_bytes;
  }
  // Copy the elements of a row, in order, to or from a dense buffer.
  void gather(const std::byte* row, std::byte* dense) const;
  void scatter(const std::byte* dense, std::byte* row) const;
  void put(const std::byte* dense, std::byte* row) const;  // of any row
  // Return the rest of a single span's first and last page. Nothing else lies there.
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

// for_each_row() with a dense copy of each row whose columns are scattered.
template <typename Visit>
void for_each_dense_row(const Extent& e, Visit&& visit) {
  if (!e.g.scattered()) return for_each_row(e, [&](const Index& at, const std::byte* row) { visit(at, row); });
  std::vector<std::byte> dense(static_cast<size_t>(e.g.row_bytes()));
  for_each_row(e, [&](const Index& at, const std::byte* row) {
    e.gather(row, dense.data());
    visit(at, static_cast<const std::byte*>(dense.data()));
  });
}

// Redzones, gaps and poisoned outputs hold a 32-bit pattern, repeated by address. A pattern has two equal
// halves, or is one fp32 number.
void fill_pattern(std::byte* begin, std::byte* end, uint32_t pattern);
// The first byte that differs from the pattern; nullptr if none does.
const std::byte* differs_from(const std::byte* begin, const std::byte* end, uint32_t pattern);

// XXH3-64 of all touched spans; and of the elements alone, in index order (0 if the tensor is absent).
uint64_t hash_touched(const Extent& e);
uint64_t hash_elements(const Extent& e);

}  // namespace attnfuzz
