#include "fuzz/worker/finite.h"

#include <algorithm>

#include "fuzz/worker/memory/owned_rows.h"
#include "reference/semantics.h"

namespace attnfuzz::worker {
namespace {

// True if none of `count` elements, `step` apart, has the exponent of NaN and infinities, `all_ones`.
template <class Bits>
bool all_finite(const Bits* at, int64_t count, int64_t step, Bits all_ones) {
  bool other = false;
  if (step == 1) {  // so that the compiler vectorises the loop
    for (int64_t i = 0; i < count; ++i) other |= (at[i] & all_ones) == all_ones;
  } else {
    for (int64_t i = 0; i < count; ++i) other |= (at[i * step] & all_ones) == all_ones;
  }
  return !other;
}

// The number of rows to check in stored entry b of a tensor. In a packed tensor, these are all rows
// that belong to an entry. For keys, they are the rows that batch entry b may see.
int64_t rows_of(const wire::Request& request, const Arena& arena, TensorId id, int64_t b) {
  const attn_problem& p = request.problem;
  if (is_packed(p, id)) return owned_rows(request, arena, id);
  if (!of_keys(spec_of(id)) || !p.has_key_lengths) return shape_of(spec_of(id), p)[2];
  const wire::Tensor& lengths = request.tensors[static_cast<size_t>(TensorId::kKeyLengths)];
  return entry_lengths(p, p.seq_q, p.seq_k, index_at(p.index_dtype, arena.at(lengths.offset), b)).keys;
}

// The same for keys in pages. Only slots that hold a key count.
template <class Bits>
bool pages_are_finite(const wire::Request& request, const Arena& arena, TensorId id, const Bits* first,
                      Bits all_ones) {
  const attn_problem& p = request.problem;
  const wire::Tensor &tensor = request.tensors[static_cast<size_t>(id)],
                     &table = request.tensors[static_cast<size_t>(TensorId::kBlockTable)];
  const int64_t of_entry = p.batch > 1 ? table.stride[0] : 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    const int64_t keys = rows_of(request, arena, id, b);
    if (keys == 0) continue;
    const auto rows =
        EntryRows::in_pages(p.batch, keys, arena.at(table.offset), of_entry, p.page_size, p.index_dtype);
    for (int64_t j = 0; j < keys; ++j) {
      const StoredRow at = rows.at(b, j);
      for (int64_t h = 0; h < p.heads_kv; ++h)
        if (!all_finite(first + at.entry * tensor.stride[0] + h * tensor.stride[1] + at.row * tensor.stride[2],
                        shape_of(spec_of(id), p)[3], tensor.stride[3], all_ones))
          return false;
    }
  }
  return true;
}

template <class Bits>
bool is_finite(const wire::Request& request, const Arena& arena, TensorId id, Bits all_ones) {
  const wire::Tensor& tensor = request.tensors[static_cast<size_t>(id)];
  if (tensor.offset == Arena::kNowhere) return true;
  const auto* first = static_cast<const Bits*>(arena.at(tensor.offset));
  if (request.problem.page_size != 0 && may_be_packed(spec_of(id)) && of_keys(spec_of(id)))
    return pages_are_finite(request, arena, id, first, all_ones);
  const auto size = stored_shape_of(spec_of(id), request.problem);
  const auto& stride = tensor.stride;
  for (int64_t b = 0; b < size[0]; ++b) {
    const int64_t rows = rows_of(request, arena, id, b);
    for (int64_t h = 0; h < size[1]; ++h)
      for (int64_t s = 0; s < rows; ++s)
        if (!all_finite(first + b * stride[0] + h * stride[1] + s * stride[2], size[3], stride[3], all_ones))
          return false;
  }
  return true;
}

}  // namespace

std::optional<TensorId> not_finite(const wire::Request& request, const Arena& arena) {
  for (const TensorId id : kFiniteTensors) {
    const int32_t dtype = dtype_of(spec_of(id), formats_of(request.problem));
    const bool finite = dtype == ATTN_F32    ? is_finite<uint32_t>(request, arena, id, 0x7f800000)
                        : dtype == ATTN_E4M3 ? is_finite<uint8_t>(request, arena, id, 0x7f)
                        : dtype == ATTN_E5M2 ? is_finite<uint8_t>(request, arena, id, 0x7c)
                        : dtype == ATTN_F16  ? is_finite<uint16_t>(request, arena, id, 0x7c00)
                                             : is_finite<uint16_t>(request, arena, id, 0x7f80);
    if (!finite) return id;
  }
  return std::nullopt;
}

}  // namespace attnfuzz::worker
