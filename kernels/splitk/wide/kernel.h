// The partial kernel of wide heads, with one block for each query tile and split, and its launch. ../kernel.h
// has the reduction.
#pragma once

#include "kernels/primitives/launch.h"
#include "kernels/splitk/kernel.h"
#include "kernels/splitk/wide/attend.h"

namespace attn {

template <class Shape, bool kLatent>
__global__ void __launch_bounds__(Shape::kThreads)
    splitk_wide_kernel(const __grid_constant__ ForwardParams p, const __grid_constant__ SplitParams split,
                       int64_t q_tiles, bool direct) {
  const SplitBlock block = this_block<Shape>(p, split, q_tiles);
  if (block.rows.empty()) return;
  const WarpPlace place = wide_place();
  RowState<Shape::kColumns> state;
  attend_wide<Shape, kLatent>(p, block.rows, block.tiles, place, state);
  if (direct) {
    store_final<typename Shape::T>(p, block.rows, place, state);
  } else {
    store_partial(p, split, block.rows, block.split, place, state);
  }
}

// `latent`: V is the first columns of K.
template <class T>
attn_status splitk_launch_wide(const ForwardParams& params, const SplitParams& split, bool latent, bool direct,
                               const attn_env* env) {
  using Shape = WideShape<T>;
  const int64_t q_tiles = (params.seq_q * params.packed + Shape::kTileQ - 1) / Shape::kTileQ;
  const int64_t blocks = q_tiles * split.splits * (params.heads_q / params.packed) * params.batch;
  const auto kernel = latent ? splitk_wide_kernel<Shape, true> : splitk_wide_kernel<Shape, false>;
  return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kThreads), Shape::shared(), env, params, split,
                q_tiles, direct);
}

extern template attn_status splitk_launch_wide<F16>(const ForwardParams&, const SplitParams&, bool, bool,
                                                    const attn_env*);
extern template attn_status splitk_launch_wide<BF16>(const ForwardParams&, const SplitParams&, bool, bool,
                                                     const attn_env*);

}  // namespace attn
