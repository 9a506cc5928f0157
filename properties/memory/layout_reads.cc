// Reads what a laid out case holds after a call.
#include <algorithm>
#include <cstring>

#include "properties/data/bits16.h"
#include "properties/memory/extent.h"
#include "properties/memory/layout.h"
#include "reference/call/row_space.h"
#include "reference/call/sequences.h"

namespace attnfuzz {

std::vector<float> LaidOut::read(TensorId t) const {
  const Extent& e = extent(t);
  if (!e.g.present) return {};
  const std::array<bool, 4> once = repeated(case_, t);
  const bool repeats = once[0] || once[1] || once[2];
  const std::array<int64_t, 4> size = packed_.packs(t) || repeats ? logical_size(case_.problem, t) : e.g.size;
  const int64_t n = size[3];
  const RowSpace rows(size[0], size[1], size[2]);
  std::vector<float> out(static_cast<size_t>(rows.count() * n));
  const int32_t dtype = dtype_of(case_.problem, t);
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    const std::optional<Index> place = logical_index(packed_, t, at);
    if (!place) return;
    const auto [b, h, s] = place->n;
    float* to = &out[static_cast<size_t>(rows.of(b, h, s) * n)];
    const auto* bits = reinterpret_cast<const uint16_t*>(row);
    // The format is a constant in each loop, so that the loops vectorise.
    if (dtype == ATTN_F16) {
      for (int64_t d = 0; d < n; ++d) to[d] = to_float(ATTN_F16, bits[d]);
    } else if (dtype == ATTN_BF16) {
      for (int64_t d = 0; d < n; ++d) to[d] = to_float(ATTN_BF16, bits[d]);
    } else {
      std::memcpy(to, row, static_cast<size_t>(4 * n));
    }
  });
  // Copies a row that is stored once to each of the rows that it stands for.
  for (int64_t row = 0; repeats && row < rows.count(); ++row) {
    const auto [b, h, s] = rows.at(row);
    const int64_t from = rows.of(once[0] ? 0 : b, once[1] ? 0 : h, once[2] ? 0 : s);
    if (from != row) std::copy_n(&out[static_cast<size_t>(from * n)], n, &out[static_cast<size_t>(row * n)]);
  }
  return out;
}

std::vector<int64_t> LaidOut::read_integers(TensorId t) const {
  const Extent& e = extent(t);
  if (!e.g.present) return {};
  const std::array<int64_t, 4> size = packed_.packs(t) ? logical_size(case_.problem, t) : e.g.size;
  const int64_t n = size[3];
  const RowSpace rows(size[0], size[1], size[2]);
  std::vector<int64_t> out(static_cast<size_t>(rows.count() * n));
  const auto bytes = static_cast<size_t>(e.g.element_bytes);
  const bool indices = is_integer(spec_of(t));
  for_each_dense_row(e, [&](const Index& at, const std::byte* row) {
    const std::optional<Index> place = logical_index(packed_, t, at);
    if (!place) return;
    const auto [b, h, s] = place->n;
    int64_t* to = &out[static_cast<size_t>(rows.of(b, h, s) * n)];
    for (int64_t d = 0; d < n; ++d) {
      if (indices)
        to[d] = index_at(bytes == 4 ? ATTN_INDEX_32 : ATTN_INDEX_64, row, d);
      else
        std::memcpy(&to[d], row + static_cast<size_t>(d) * bytes, bytes);  // bits, little-endian
    }
  });
  return out;
}

}  // namespace attnfuzz
