#include "fuzz/worker/memory/shadow_rows.h"

#include <algorithm>

namespace attnfuzz::worker {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 20;

}  // namespace

TensorShape shape_of(const wire::Request& request, TensorId tensor) {
  const TensorSpec& spec = spec_of(tensor);
  const attn_problem& p = request.problem;
  TensorShape shape = {element_bytes(spec, formats_of(p)), stored_shape_of(spec, p)};
  if (spec.role == Role::kScratch) shape.size[3] = static_cast<int64_t>(request.workspace_bytes);
  return shape;
}

bool for_each_row(const wire::Request& request, TensorId tensor, const Row& row) {
  const auto& [offset, stride] = request.tensors[static_cast<size_t>(tensor)];
  const TensorShape shape = shape_of(request, tensor);
  if (offset == Arena::kNowhere) return true;
  std::array<int64_t, 4> count = shape.size;
  for (int i = 0; i < 4; ++i) {
    if (count[i] <= 0) return true;
    if (stride[i] == 0) count[i] = 1;  // broadcast: the same elements again
  }
  // Elements that are adjacent in memory form one row.
  int64_t run = 1;
  if (stride[3] == 1 || count[3] == 1) {
    run = count[3];
    count[3] = 1;
  }
  int64_t rows = 1;
  for (const int64_t n : count) {
    if (n > kMostRows / rows) return false;
    rows *= n;
  }
  std::array<int64_t, 4> i = {0, 0, 0, 0};
  for (i[0] = 0; i[0] < count[0]; ++i[0]) {
    for (i[1] = 0; i[1] < count[1]; ++i[1]) {
      for (i[2] = 0; i[2] < count[2]; ++i[2]) {
        for (i[3] = 0; i[3] < count[3]; ++i[3]) {
          int64_t element = 0;
          for (int n = 0; n < 4; ++n) element += i[n] * stride[n];
          row(offset + static_cast<uint64_t>(element * shape.element),
              static_cast<uint64_t>(run * shape.element), i);
        }
      }
    }
  }
  return true;
}

}  // namespace attnfuzz::worker
