#include "fuzz/worker/finite.h"

#include <algorithm>

#include "fuzz/worker/memory/owned_rows.h"

namespace attnfuzz::worker {
namespace {

// True if none of `count` elements, `step` apart, has the exponent of NaN and infinities, `all_ones`.
template <class Bits>
bool all_finite(const Bits* at, int64_t count, int64_t step, Bits all_ones) {
  bool other = false;
  if (step == 1) {  // so that it becomes vectors
    for (int64_t i = 0; i < count; ++i) other |= (at[i] & all_ones) == all_ones;
  } else {
    for (int64_t i = 0; i < count; ++i) other |= (at[i * step] & all_ones) == all_ones;
  }
  return !other;
}

// The rows of stored entry b of a tensor that count: of packed sequences all that belong to one, and of keys those
// that batch entry b may see.
int64_t rows_of(const wire::Request& request, const Arena& arena, TensorId id, int64_t b) {
  const attn_problem& p = request.problem;
  if (is_packed(p, id)) return owned_rows(request, arena, id);
  if (!of_keys(spec_of(id)) || !p.has_key_lengths) return shape_of(spec_of(id), p)[2];
  const wire::Tensor& lengths = request.tensors[static_cast<size_t>(TensorId::kKeyLengths)];
  return std::clamp<int64_t>(index_at(p.index_dtype, arena.at(lengths.offset), b), 0, p.seq_k);
}

template <class Bits>
bool is_finite(const wire::Request& request, const Arena& arena, TensorId id, Bits all_ones) {
  const wire::Tensor& tensor = request.tensors[static_cast<size_t>(id)];
  if (tensor.offset == Arena::kNowhere) return true;
  const auto* first = static_cast<const Bits*>(arena.at(tensor.offset));
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
    const bool finite = dtype == ATTN_F32   ? is_finite<uint32_t>(request, arena, id, 0x7f800000)
                        : dtype == ATTN_F16 ? is_finite<uint16_t>(request, arena, id, 0x7c00)
                                            : is_finite<uint16_t>(request, arena, id, 0x7f80);
    if (!finite) return id;
  }
  return std::nullopt;
}

}  // namespace attnfuzz::worker
