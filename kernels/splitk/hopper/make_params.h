// The host side of DecodeParams: the tensors that the copy engine reads, and the parameters of a checked problem.
#pragma once

#include <algorithm>

#include "kernels/plug_in.h"
#include "kernels/splitk/hopper/params.h"
#include "kernels/splitk/hopper/producer.h"

namespace attn {

inline TensorView tensor_view(const Strided& tensor, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
  return {tensor.data, {columns, rows, heads, batch}, {tensor.stride[2], tensor.stride[1], tensor.stride[0]}};
}

inline TensorView tensor_of_keys(const attn_problem& p, const ForwardParams& params) {
  const Rows rows = rows_of_keys(p);
  return tensor_view(params.k, rows.entries, p.heads_kv, rows.count, p.dim_qk);
}

inline TensorView tensor_of_values(const attn_problem& p, const ForwardParams& params) {
  const Rows rows = rows_of_keys(p);
  return tensor_view(params.v, rows.entries, p.heads_kv, rows.count, p.dim_v);
}

// The keys of a box if keys lie in pages: a page, or the part of a larger page that fills a tile. 0 if no box
// divides both.
inline int32_t box_rows_of(int64_t page_size, int tile_k) {
  const int64_t rows = std::min<int64_t>(page_size, tile_k);
  return page_size % rows == 0 && tile_k % rows == 0 && rows >= kLeastBoxRows ? static_cast<int32_t>(rows) : 0;
}

inline DecodeParams decode_params(const attn_problem& problem, const ForwardParams& params, const SplitParams& split) {
  DecodeParams p = {};
  p.forward = params;
  p.split = split;
  p.items = static_cast<uint32_t>(problem.batch * problem.heads_kv * split.splits);
  p.splits = static_cast<uint32_t>(split.splits);
  p.split_tiles = static_cast<uint32_t>(split.split_tiles);
  p.heads_kv = static_cast<uint32_t>(problem.heads_kv);
  p.packed = static_cast<uint32_t>(params.packed);
  p.rows = static_cast<int32_t>(problem.seq_q * params.packed);
  p.whole = params.left >= kFar && params.right >= kFar;
  p.windowed = params.left < kFar;
  p.sign = params.sign;
  p.sigma = params.sigma;
  return p;
}

}  // namespace attn
