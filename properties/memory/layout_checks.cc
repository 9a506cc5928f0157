// The checks of a laid out case: that nothing was written but outputs, and these completely.
#include <algorithm>
#include <cstring>

#include "properties/memory/case_poison.h"
#include "properties/memory/extent.h"
#include "properties/memory/inputs.h"
#include "properties/memory/layout.h"
#include "properties/memory/strays.h"

namespace attnfuzz {
namespace {

std::string coordinates(const std::array<int64_t, 4>& at) {
  return "(" + std::to_string(at[0]) + "," + std::to_string(at[1]) + "," + std::to_string(at[2]) + "," +
         std::to_string(at[3]) + ")";
}

std::array<int64_t, 4> last_index(const Geometry& g) {
  std::array<int64_t, 4> at;
  for (int n = 0; n < 4; ++n) at[n] = std::max<int64_t>(g.size[n] - 1, 0);
  return at;
}

// Checks the bytes between the elements of a tensor with scattered columns.
std::optional<MemoryFault> between_elements(const Extent& e, TensorId t, uint32_t pattern) {
  std::vector<std::byte> due(static_cast<size_t>(e.g.span_bytes) + 4), here(due.size());
  // The pattern repeats by address.
  const auto turn = static_cast<int64_t>(reinterpret_cast<uintptr_t>(e.data) & 3);
  for (size_t n = 0; n < due.size(); ++n)
    due[n] = static_cast<std::byte>(pattern >> (8 * ((static_cast<int64_t>(n) + turn) & 3)));
  std::memcpy(here.data(), e.data, static_cast<size_t>(e.g.span_bytes));
  for_each_row(e, [&](const Index&, const std::byte* row) {
    for (int64_t d = 0; d < e.g.size[3]; ++d) {
      const int64_t at = row - e.data + d * e.g.stride[3] * e.g.element_bytes;
      std::memcpy(&here[static_cast<size_t>(at)], &due[static_cast<size_t>(at)],
                  static_cast<size_t>(e.g.element_bytes));
    }
  });
  const int64_t bad =
      std::mismatch(here.begin(), here.begin() + e.g.span_bytes, due.begin()).first - here.begin();
  if (bad == e.g.span_bytes) return std::nullopt;
  return MemoryFault{MemoryFault::Kind::kGap,
                     t,
                     {},
                     std::string("a gap between elements of ") + name_of(t) + " was written, " +
                         std::to_string(bad) + " bytes past the beginning"};
}

// Finds redzones and gaps that no longer hold `pattern`.
std::optional<MemoryFault> surroundings(const Extent& e, TensorId t, uint32_t pattern) {
  using enum MemoryFault::Kind;
  if (const std::byte* bad = differs_from(e.begin, e.data, pattern)) {
    return MemoryFault{
        kRedzone,
        t,
        {},
        "memory " + std::to_string(e.data - bad) + " bytes before " + name_of(t) + " was written"};
  }
  if (const std::byte* bad = differs_from(e.elements_end(), e.end, pattern)) {
    return MemoryFault{kRedzone, t, last_index(e.g),
                       "memory " + std::to_string(bad - e.elements_end()) + " bytes past the end of " +
                           name_of(t) + " was written"};
  }
  if (!e.has_gaps()) return std::nullopt;
  if (e.g.scattered()) return between_elements(e, t, pattern);
  std::optional<MemoryFault> fault;
  const std::byte* until = e.data;
  Index before;
  const auto report = [&](const std::byte* bad) {
    const std::array<int64_t, 4> at = {before.n[0], before.n[1], before.n[2], e.g.size[3] - 1};
    fault = MemoryFault{kGap, t, at,
                        std::string("the gap between rows of ") + name_of(t) + " was written, " +
                            std::to_string(bad - until) + " bytes past the end of row " + coordinates(at)};
  };
  for_each_row(e, [&](const Index& at, const std::byte* row) {
    if (fault) return;
    if (row - until <= 2 * kGapEnd) {
      if (const std::byte* bad = differs_from(until, row, pattern)) report(bad);
    } else if (const std::byte* low = differs_from(until, until + kGapEnd, pattern)) {
      report(low);
    } else if (const std::byte* high = differs_from(row - kGapEnd, row, pattern)) {
      report(high);
    }
    until = row + e.g.row_bytes();
    before = at;
  });
  return fault;
}

// (b, h, i) of a stored row. A row that belongs to no batch entry gets the indices of the row before it.
std::array<int64_t, 4> named(const PackedCase& packed, TensorId t, const Index& at, int64_t d) {
  const StoredRow place = packed.nearest(t, {at.n[0], at.n[2]});
  return {place.entry, at.n[1], place.row, d};
}

// Finds a row of an output that belongs to no batch entry and no longer holds `pattern`.
std::optional<MemoryFault> written_slack(const PackedCase& packed, const Extent& e, TensorId t, uint32_t pattern) {
  if (!packed.packs(t)) return std::nullopt;
  std::optional<MemoryFault> fault;
  for_each_row(e, [&](const Index& at, const std::byte* row) {
    if (fault || logical_index(packed, t, at)) return;
    for (int64_t d = 0; d < e.g.size[3]; ++d) {
      const std::byte* element = row + d * e.g.stride[3] * e.g.element_bytes;
      if (differs_from(element, element + e.g.element_bytes, pattern) == nullptr) continue;
      fault = MemoryFault{MemoryFault::Kind::kGap, t, named(packed, t, at, d),
                          "row " + std::to_string(at.n[2]) + " of " + name_of(t) +
                              ", behind the last batch entry, was written"};
      return;
    }
  });
  return fault;
}

// Finds the element of an input that has changed.
std::optional<MemoryFault> changed_element(const PackedCase& packed, const Extent& e, TensorId t, InputRows rows) {
  std::optional<MemoryFault> fault;
  std::vector<std::byte> expected(static_cast<size_t>(e.g.row_bytes()));
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    if (fault) return;
    rows.write(at, expected.data());
    if (std::memcmp(row, expected.data(), expected.size()) == 0) return;
    const auto bad = std::mismatch(expected.begin(), expected.end(), row).first - expected.begin();
    const std::array<int64_t, 4> index = named(packed, t, at, bad / e.g.element_bytes);
    fault = MemoryFault{MemoryFault::Kind::kInputChanged, t, index,
                        std::string("the input ") + name_of(t) + " was written at " + coordinates(index)};
  });
  return fault;
}

template <typename Bits>
int64_t find_never_written(const std::byte* row, int64_t count, uint64_t pattern) {
  // Counts without branches first, because there is almost never a hit.
  int64_t found = 0;
  for (int64_t n = 0; n < count; ++n) {
    Bits bits;
    std::memcpy(&bits, row + n * sizeof bits, sizeof bits);
    found += bits == static_cast<Bits>(pattern);
  }
  if (found == 0) return -1;
  for (int64_t n = 0; n < count; ++n) {
    Bits bits;
    std::memcpy(&bits, row + n * sizeof bits, sizeof bits);
    if (bits == static_cast<Bits>(pattern)) return n;
  }
  return -1;
}

std::optional<MemoryFault> never_written(const PackedCase& packed, const Extent& e, TensorId t, uint32_t pattern) {
  std::optional<MemoryFault> fault;
  const uint64_t twice = uint64_t{pattern} << 32 | pattern;
  const auto find = e.g.element_bytes == 2   ? find_never_written<uint16_t>
                    : e.g.element_bytes == 4 ? find_never_written<uint32_t>
                                             : find_never_written<uint64_t>;
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    if (fault) return;
    const int64_t d = find(row, e.g.size[3], twice);
    if (d < 0 || !logical_index(packed, t, at)) return;
    const std::array<int64_t, 4> index = named(packed, t, at, d);
    fault = MemoryFault{MemoryFault::Kind::kUnwritten, t, index,
                        name_of(t) + coordinates(index) + " was never written"};
  });
  return fault;
}

}  // namespace

std::optional<MemoryFault> LaidOut::check_surroundings(TensorId t, uint32_t pattern) const {
  std::optional<MemoryFault> fault = surroundings(extent(t), t, pattern);
  if (fault && packed_.packs(t)) {
    const auto [b, h, s, d] = fault->index;
    fault->index = named(packed_, t, {{b, h, s}}, d);
  }
  return fault;
}

std::optional<MemoryFault> LaidOut::check_unchanged(TensorId t) const {
  const Extent& e = extent(t);
  if (!e.g.present || hash_touched(e) == e.hash) return std::nullopt;
  if (auto fault = check_surroundings(t, arena_.poison.input)) return fault;
  if (auto fault = changed_element(packed_, e, t, rows_of(t))) return fault;
  return MemoryFault{
      MemoryFault::Kind::kInputChanged, t, {}, std::string("the input ") + name_of(t) + " was written"};
}

std::optional<MemoryFault> LaidOut::check_inputs() const {
  for (TensorId t : kInputs) {
    if (auto fault = check_unchanged(t)) return fault;
  }
  return std::nullopt;
}

std::optional<MemoryFault> LaidOut::check_planned() const {
  for (TensorId t : kOutputs) {
    const Extent& e = extent(t);
    if (holds_input(t) && e.g.present && hash_touched(e) == e.hash) continue;
    for (const std::span<const std::byte> stretch : e.touched) {
      const std::byte* end = stretch.data() + stretch.size();
      if (differs_from(stretch.data(), end, output_pattern(case_, t, arena_.poison)) == nullptr) continue;
      if (auto fault = check_surroundings(t, output_pattern(case_, t, arena_.poison))) return fault;
      return MemoryFault{MemoryFault::Kind::kTooEarly, t, {}, std::string(name_of(t)) + " was written"};
    }
  }
  if (auto fault = check_inputs()) return fault;
  for (TensorId t : kStates) {
    if (auto fault = check_unchanged(t)) {
      if (fault->kind == MemoryFault::Kind::kInputChanged)
        *fault = {MemoryFault::Kind::kTooEarly, t, fault->index, std::string(name_of(t)) + " was written"};
      return fault;
    }
  }
  return strays_->after(extents_);
}

std::optional<MemoryFault> LaidOut::check_memory(bool outputs) const {
  for (TensorId t : kOutputs) {
    const Extent& e = extent(t);
    if (!e.g.present) continue;
    const uint32_t pattern = output_pattern(case_, t, arena_.poison);
    if (auto fault = check_surroundings(t, pattern)) return fault;
    if (auto fault = written_slack(packed_, e, t, pattern)) return fault;
  }
  if (extent(TensorId::kWorkspace).g.present) {
    if (auto fault = check_surroundings(TensorId::kWorkspace, arena_.poison.workspace)) return fault;
  }
  for (TensorId t : kStates) {
    if (!extent(t).g.present) continue;
    if (auto fault = check_surroundings(t, arena_.poison.input)) return fault;
  }
  if (auto fault = check_inputs()) return fault;
  if (auto fault = strays_->after(extents_)) return fault;
  if (!outputs || case_.poison != Poison::kNan) return std::nullopt;
  for (TensorId t : kOutputs) {
    if (holds_input(t)) continue;  // it holds an input, not poison; the oracle judges an element that stays
    if (auto fault = never_written(packed_, extent(t), t, arena_.poison.output)) return fault;
  }
  return std::nullopt;
}

}  // namespace attnfuzz
