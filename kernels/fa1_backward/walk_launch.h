// The launch of the fast way, and its instantiations: one .cu for each number of columns.
#pragma once

#include <algorithm>

#include "kernels/fa1_backward/walk_keys.h"
#include "kernels/fa1_backward/walk_queries.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

namespace attn::backward {

template <class Shape, bool kFused>
size_t walk_shared() {
  const size_t keys = KeyTiles<F16, Shape::kKeys, kFused>::bytes(), queries = QueryTiles<F16, Shape::kQueries>::bytes();
  return kFused ? keys : std::max(keys, queries);
}

template <class T, class Shape, bool kFused>
attn_status launch_walks(const WalkParams& p, const attn_env* env) {
  const ForwardParams& f = p.of.forward;
  constexpr int D = Shape::kKeys.dim;
  const auto start = [&](void (*kernel)(WalkParams), int64_t blocks, int threads, size_t bytes) {
    if (blocks == 0) return ATTN_OK;
    return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), bytes, env, p);
  };
  const int64_t row_blocks = f.batch * f.heads_q * (p.rows / kRowTile);
  attn_status status = start(prepare_rows<T, D>, row_blocks, kThreads, 0);
  if (status == ATTN_OK)
    status = start(walk_queries<T, Shape, kFused>, f.batch * p.of.heads_kv * ceil_div(f.seq_k, Shape::kKeys.keys()),
                   Shape::kKeys.threads(), KeyTiles<T, Shape::kKeys, kFused>::bytes());
  if (status != ATTN_OK) return status;
  if constexpr (kFused) {
    return start(finish_dq<T, D>, row_blocks, kThreads, 0);
  } else {
    return start(walk_keys<T, Shape>, f.batch * f.heads_q * ceil_div(f.seq_q, QuerySpec::kQueries),
                 QuerySpec::threads(), QueryTiles<T, Shape::kQueries>::bytes());
  }
}

}  // namespace attn::backward

// Instantiates both formats of a shape, in a .cu.
#define ATTN_BACKWARD_WALKS(Shape, fused)                                                                        \
  template attn_status attn::backward::launch_walks<attn::F16, attn::backward::Shape, fused>(const WalkParams&,  \
                                                                                             const attn_env*);   \
  template attn_status attn::backward::launch_walks<attn::BF16, attn::backward::Shape, fused>(const WalkParams&, \
                                                                                              const attn_env*);  \
  template size_t attn::backward::walk_shared<attn::backward::Shape, fused>()
