#include "properties/memory/extent.h"

#include <algorithm>
#include <cstring>

// Inlined, so that it is compiled for this machine: it reads every input byte twice a call.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace attnfuzz {
namespace {

// The byte of a pattern at an address.
std::byte pattern_byte(uint32_t pattern, uintptr_t address) {
  return static_cast<std::byte>(pattern >> (8 * (address & 3)));
}

std::byte* aligned_up(std::byte* p) { return p + (-reinterpret_cast<uintptr_t>(p) & 3); }
const std::byte* aligned_up(const std::byte* p) { return p + (-reinterpret_cast<uintptr_t>(p) & 3); }

std::vector<std::span<std::byte>> stretches(const Extent& e) {
  std::vector<std::span<std::byte>> touched;
  std::byte* from = e.begin;
  std::byte* until = e.data;
  for_each_row(e, [&](const Index&, std::byte* row) {
    if (row - until > 2 * kGapEnd) {
      touched.emplace_back(from, until + kGapEnd);
      from = row - kGapEnd;
    }
    until = row + e.g.row_bytes();
  });
  touched.emplace_back(from, e.end);
  return touched;
}

bool compact(const Extent& e, const TensorLayout& layout) {
  return layout.scattered() || (layout.spread == 0 && layout.row_gap * e.g.element_bytes <= 2 * kGapEnd);
}

}  // namespace

void Extent::gather(const std::byte* row, std::byte* dense) const {
  const int64_t step = g.stride[3] * g.element_bytes;
  for (int64_t d = 0; d < g.size[3]; ++d)
    std::memcpy(dense + d * g.element_bytes, row + d * step, static_cast<size_t>(g.element_bytes));
}

void Extent::put(const std::byte* dense, std::byte* row) const {
  if (g.scattered())
    scatter(dense, row);
  else
    std::memcpy(row, dense, static_cast<size_t>(g.row_bytes()));
}

void Extent::scatter(const std::byte* dense, std::byte* row) const {
  const int64_t step = g.stride[3] * g.element_bytes;
  for (int64_t d = 0; d < g.size[3]; ++d)
    std::memcpy(row + d * step, dense + d * g.element_bytes, static_cast<size_t>(g.element_bytes));
}

std::span<std::byte> Extent::page_before() const {
  const auto bytes = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % Arena::kPage);
  return touched.size() == 1 ? std::span(begin - bytes, begin) : std::span<std::byte>();
}
std::span<std::byte> Extent::page_after() const {
  const auto bytes = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(end) % Arena::kPage);
  return touched.size() == 1 ? std::span(end, end + bytes) : std::span<std::byte>();
}

int64_t Extent::touched_bytes() const {
  int64_t bytes = 0;
  for (const auto& stretch : touched) bytes += static_cast<int64_t>(stretch.size());
  return bytes;
}

Extent extent_of(const Case& c, TensorId t, Arena& arena) {
  Extent e;
  if (!is_present(c, t)) return e;  // an absent tensor's layout is unchecked and may not fit
  e.g = *geometry(c, t);
  const TensorLayout& layout = c.layout[static_cast<size_t>(t)];
  if (layout.placement == Placement::kPageEnd) {
    e.data = arena.slot_end(t) - e.g.span_bytes;
    e.begin = e.data - kRedzoneBefore;
    e.end = arena.slot_end(t);
  } else {
    // The bytes of a small offset become part of the redzone; those of a large offset stay untouched.
    const bool near = e.g.offset_bytes <= kGapEnd;
    const int64_t bytes = kRedzoneBefore + e.g.offset_bytes + e.g.span_bytes + e.g.redzone_after();
    std::byte* const from =
        arena.slot(t) + (near && compact(e, layout) ? Arena::lead(static_cast<uint64_t>(bytes)) : 0);
    e.data = from + kRedzoneBefore + e.g.offset_bytes;
    e.begin = near ? from : e.data - kRedzoneBefore;
    e.end = e.elements_end() + e.g.redzone_after();
  }
  if (compact(e, layout)) {
    e.touched.emplace_back(e.begin, e.end);
  } else {
    e.touched = stretches(e);
  }
  return e;
}

void fill_pattern(std::byte* begin, std::byte* end, uint32_t pattern) {
  std::byte* p = begin;
  for (; p < end && p < aligned_up(begin); ++p) *p = pattern_byte(pattern, reinterpret_cast<uintptr_t>(p));
  const size_t words = static_cast<size_t>(end - p) / 4;
  // Guarded memory has no type; memcpy of a word compiles to a store.
  for (size_t n = 0; n < words; ++n) std::memcpy(p + 4 * n, &pattern, 4);
  for (p += 4 * words; p < end; ++p) *p = pattern_byte(pattern, reinterpret_cast<uintptr_t>(p));
}

const std::byte* differs_from(const std::byte* begin, const std::byte* end, uint32_t pattern) {
  const auto scan = [pattern](const std::byte* from, const std::byte* to) -> const std::byte* {
    for (const std::byte* p = from; p < to; ++p) {
      if (*p != pattern_byte(pattern, reinterpret_cast<uintptr_t>(p))) return p;
    }
    return nullptr;
  };
  const std::byte* p = std::min(aligned_up(begin), end);
  if (const std::byte* bad = scan(begin, p)) return bad;
  // Whole blocks first: with one comparison a block, the inner loop vectorises.
  constexpr int64_t kBlock = 256;
  for (; end - p >= kBlock; p += kBlock) {
    uint32_t difference = 0;
    for (int64_t n = 0; n < kBlock; n += 4) {
      uint32_t word;
      std::memcpy(&word, p + n, 4);
      difference |= word ^ pattern;
    }
    if (difference) return scan(p, p + kBlock);
  }
  return scan(p, end);
}

uint64_t hash_touched(const Extent& e) {
  uint64_t hash = 0;
  for (const auto& stretch : e.touched) hash = XXH3_64bits_withSeed(stretch.data(), stretch.size(), hash);
  return hash;
}

uint64_t hash_elements(const Extent& e) {
  if (!e.g.present) return 0;
  if (e.g.empty()) return XXH3_64bits(nullptr, 0);
  std::vector<std::byte> dense(static_cast<size_t>(e.g.scattered() ? e.g.row_bytes() : 0));
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  for (int64_t b = 0; b < e.g.size[0]; ++b) {
    for (int64_t h = 0; h < e.g.size[1]; ++h) {
      for (int64_t s = 0; s < e.g.size[2]; ++s) {
        const std::byte* row = e.row(b, h, s);
        if (e.g.scattered()) {
          e.gather(row, dense.data());
          row = dense.data();
        }
        XXH3_64bits_update(&state, row, static_cast<size_t>(e.g.row_bytes()));
      }
    }
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace attnfuzz
