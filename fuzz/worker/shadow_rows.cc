#include "fuzz/worker/shadow_rows.h"

#include <algorithm>

namespace attnfuzz::worker {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 20;

int64_t bytes_of(int32_t dtype) { return dtype == ATTN_F32 ? 4 : dtype == ATTN_NONE ? 0 : 2; }

}  // namespace

TensorShape shape_of(const wire::Request& request, TensorId tensor) {
  const attn_problem& p = request.problem;
  switch (tensor) {
    case TensorId::kQ:
      return {2, {p.batch, p.heads_q, p.seq_q, p.dim_qk}};
    case TensorId::kK:
      return {2, {p.batch, p.heads_kv, p.seq_k, p.dim_qk}};
    case TensorId::kV:
      return {2, {p.batch, p.heads_kv, p.seq_k, p.dim_v}};
    case TensorId::kO:
      return {2, {p.batch, p.heads_q, p.seq_q, p.dim_v}};
    case TensorId::kLse:
      return {4, {p.batch, p.heads_q, p.seq_q, 1}};
    case TensorId::kBias:
      return {bytes_of(p.bias_dtype), {p.batch, p.heads_q, p.seq_q, p.seq_k}};
    case TensorId::kMask:
      return {1, {p.batch, p.heads_q, p.seq_q, p.seq_k}};
    case TensorId::kKeyLengths:
      return {8, {1, 1, 1, p.batch}};
    case TensorId::kWorkspace:
      return {1, {1, 1, 1, static_cast<int64_t>(request.workspace_bytes)}};
  }
  return {};
}

bool for_each_row(const wire::Request& request, TensorId tensor, const Row& row) {
  const auto t = static_cast<size_t>(tensor);
  uint64_t offset;
  std::array<int64_t, 4> stride = {0, 0, 0, 1};
  if (t < wire::kStridedTensors) {
    offset = request.tensors[t].offset;
    std::copy_n(request.tensors[t].stride, 4, stride.begin());
  } else {
    offset = tensor == TensorId::kKeyLengths ? request.key_lengths : request.workspace;
  }
  const TensorShape shape = shape_of(request, tensor);
  if (offset == Arena::kNowhere || shape.element == 0) return true;
  std::array<int64_t, 4> count = shape.size;
  for (int i = 0; i < 4; ++i) {
    if (count[i] <= 0) return true;
    if (stride[i] == 0) count[i] = 1;  // broadcast: the same elements again
  }
  // Neighbours are taken together where they are neighbours in memory too.
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
