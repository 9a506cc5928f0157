#include <utility>

#include "reference/cuda/pack.h"
#include "reference/cuda/pack_forward.h"

namespace attnfuzz::cuda {

bool pack_merge(const attn_problem& p, const attn_tensors& host, const std::vector<int64_t>& rows,
                double least_work, const std::function<std::byte*(size_t)>& room, PackedMerge* packed,
                std::string* why) {
  const auto no = [&](const char* reason) {
    *why = reason;
    return false;
  };
  if (static_cast<double>(rows.size()) * static_cast<double>(p.dim_v) * 2 < least_work)
    return no("small: the CPU's oracle is faster");
  const int64_t number = p.dtype == ATTN_F32 ? 4 : 2;
  const uint64_t row_bytes = static_cast<uint64_t>(p.dim_v * number);
  uint64_t bytes = 0;
  const auto take = [&](uint64_t more) { return std::exchange(bytes, bytes + (more + 255) / 256 * 256); };
  const uint64_t o[] = {take(rows.size() * row_bytes), take(rows.size() * row_bytes)},
                 lse[] = {take(rows.size() * sizeof(float)), take(rows.size() * sizeof(float))};
  if (bytes > kMostBytes) return no("more than 256 MiB of inputs");
  packed->block = room(bytes);
  packed->bytes = bytes;
  const attn_tensor* const from[] = {&host.o1, &host.o2};
  const attn_tensor* const lse_from[] = {&host.lse1, &host.lse2};
  const RowSpace space(p);
  for (int side = 0; side < 2; ++side) {
    for (size_t r = 0; r < rows.size(); ++r) {
      const Row at = space.at(rows[r]);
      copy_elements(number, *from[side], offset_of(*from[side], at.b, at.h, at.i, 0), p.dim_v,
                    packed->block + o[side] + r * row_bytes);
      copy_elements(4, *lse_from[side], offset_of(*lse_from[side], at.b, at.h, at.i, 0), 1,
                    packed->block + lse[side] + r * sizeof(float));
    }
    point(packed->input.o[side], o[side]);
    point(packed->input.lse[side], lse[side]);
  }
  packed->input.dtype = p.dtype;
  packed->input.rows = static_cast<int32_t>(rows.size());
  packed->input.columns = static_cast<int32_t>(p.dim_v);
  return true;
}

}  // namespace attnfuzz::cuda
