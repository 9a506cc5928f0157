// The instantiations of FA-1's general path, one .cu for each format, and their launch.
#pragma once

#include "kernels/fa1/kernel.h"
#include "kernels/fa1/shapes.h"
#include "kernels/primitives/launch.h"

namespace attn {

// `shape`: an index into kFa1Shapes.
template <class T>
attn_status fa1_launch(size_t shape, const ForwardParams& params, const attn_env* env) {
  return with_shape<T, kFa1Shapes>(shape, [&]<class Shape>() {
    const int64_t q_tiles = (params.seq_q + Shape::kTileQ - 1) / Shape::kTileQ;
    const int64_t blocks = q_tiles * params.heads_q * params.batch;
    return launch(fa1_kernel<Shape>, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kThreads),
                  kFa1Shapes[shape].shared(), env, params, q_tiles);
  });
}

extern template attn_status fa1_launch<F16>(size_t, const ForwardParams&, const attn_env*);
extern template attn_status fa1_launch<BF16>(size_t, const ForwardParams&, const attn_env*);

}  // namespace attn
