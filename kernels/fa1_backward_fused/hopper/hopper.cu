// The host side of the walk on wgmma, and its instantiations.
#include "kernels/fa1_backward_fused/hopper/hopper.h"
#include "kernels/fa1_backward_fused/hopper/walk.h"
#include "kernels/primitives/launch.h"

namespace attn::backward {
namespace {

template <class T, int D>
attn_status launch_columns(const WalkParams& p, const attn_env* env) {
  using Tiles = GroupTiles<T, D>;
  const ForwardParams& f = p.of.forward;
  const auto start = [&](void (*kernel)(WalkParams), int64_t blocks, int threads, size_t bytes) {
    if (blocks == 0) return ATTN_OK;
    return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), bytes, env, p);
  };
  const int64_t row_blocks = f.batch * f.heads_q * (p.rows / kRowTile);
  attn_status status = start(prepare_rows<T, D>, row_blocks, kThreads, 0);
  if (status == ATTN_OK)
    status = start(walk_groups<T, D>, f.batch * p.of.heads_kv * ceil_div(f.seq_k, Tiles::kKeys), Tiles::kThreads,
                   Tiles::bytes());
  return status == ATTN_OK ? start(finish_dq<T, D>, row_blocks, kThreads, 0) : status;
}

}  // namespace

size_t groups_shared(int64_t columns) {
  return columns == 64 ? GroupTiles<F16, 64>::bytes() : GroupTiles<F16, 128>::bytes();
}

attn_status launch_groups(const Call& call, const WalkParams& p) {
  const auto launch = [&]<class T>() {
    const bool narrow = std::max(call.problem.dim_qk, call.problem.dim_v) <= 64;
    return narrow ? launch_columns<T, 64>(p, &call.env) : launch_columns<T, 128>(p, &call.env);
  };
  return call.problem.dtype == ATTN_F16 ? launch.template operator()<F16>() : launch.template operator()<BF16>();
}

}  // namespace attn::backward
