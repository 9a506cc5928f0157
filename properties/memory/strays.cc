#include "properties/memory/strays.h"

#include <algorithm>
#include <string>

namespace attnfuzz {
namespace {

// Describes a write in the slot of tensor t, whose extent is e. `at` is the first byte that changed.
MemoryFault stray(const Extent& e, TensorId t, const std::byte* at) {
  using enum MemoryFault::Kind;
  const std::string name = name_of(t);
  // A written element may begin with bytes of 0, which look untouched: go back to the beginning of its element.
  if (e.g.element_bytes > 0 && at >= e.data) at -= (at - e.data) % e.g.element_bytes;
  if (e.touched.empty())
    return {kRedzone, t, {}, "memory was written where " + name + " would lie; this case has no such tensor"};
  if (at >= e.elements_end()) {
    std::array<int64_t, 4> last;
    for (int n = 0; n < 4; ++n) last[n] = std::max<int64_t>(e.g.size[n] - 1, 0);
    return {
        kRedzone, t, last,
        "memory " + std::to_string(at - e.elements_end()) + " bytes past the end of " + name + " was written"};
  }
  if (at < e.data)
    return {
        kRedzone, t, {}, "memory " + std::to_string(e.data - at) + " bytes before " + name + " was written"};
  return {kGap,
          t,
          {},
          "memory between rows of " + name + " was written, " + std::to_string(at - e.data) +
              " bytes past its beginning"};
}

// True if a page holds bytes of e.
bool laid_out(const Extent& e, const std::byte* page) {
  return std::ranges::any_of(e.touched, [&](const std::span<std::byte>& stretch) {
    return stretch.data() < page + Arena::kPage && stretch.data() + stretch.size() > page;
  });
}

}  // namespace

void Strays::fill(const Extent& e) const {
  for (const std::span<std::byte> rest : {e.page_before(), e.page_after()})
    fill_pattern(rest.data(), rest.data() + rest.size(), arena_.poison.input);
}

void Strays::before() { existed_ = arena_.existing(); }

std::optional<MemoryFault> Strays::after(std::span<const Extent> extents) const {
  for (size_t n = 0; n < extents.size(); ++n) {
    if (auto fault = beside(extents[n], static_cast<TensorId>(n))) return fault;
  }
  return arena_.existing() == existed_ ? std::nullopt : new_pages(extents);
}

std::optional<MemoryFault> Strays::beside(const Extent& e, TensorId t) const {
  for (const std::span<std::byte> rest : {e.page_before(), e.page_after()}) {
    if (const std::byte* bad = differs_from(rest.data(), rest.data() + rest.size(), arena_.poison.input))
      return stray(e, t, bad);
  }
  return std::nullopt;
}

std::optional<MemoryFault> Strays::new_pages(std::span<const Extent> extents) const {
  std::optional<MemoryFault> fault;
  for (size_t n = 0; n < extents.size(); ++n) {
    const auto t = static_cast<TensorId>(n);
    arena_.for_each_new_page(t, [&](std::byte* page) {
      if (laid_out(extents[n], page)) return;
      std::byte* const end = page + Arena::kPage;
      std::byte* const bad = std::find_if(page, end, [](std::byte b) { return b != std::byte{0}; });
      if (bad != end && !fault) fault = stray(extents[n], t, bad);
      arena_.forget_page(page);
    });
  }
  return fault;
}

}  // namespace attnfuzz
