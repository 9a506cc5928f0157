// The instantiations of Split-K, one .cu for each format, and the launches of its stages.
#pragma once

#include "kernels/primitives/launch.h"
#include "kernels/splitk/kernel.h"
#include "kernels/splitk/shapes.h"

namespace attn {

// `shape`: an index into kSplitkShapes. `kNarrow`: K and V have 8 bits.
template <class T, bool kNarrow = false>
attn_status splitk_launch_partial(size_t shape, const ForwardParams& params, const SplitParams& split,
                                  bool direct, const attn_env* env) {
  return with_shape<T, kSplitkShapes>(shape, [&]<class Wide>() {
    using Shape = std::conditional_t<kNarrow, NarrowShape<Wide>, Wide>;
    const int64_t q_tiles = (params.seq_q * params.packed + Shape::kTileQ - 1) / Shape::kTileQ;
    const int64_t blocks = q_tiles * split.splits * (params.heads_q / params.packed) * params.batch;
    return launch(splitk_partial_kernel<Shape>, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kThreads),
                  kSplitkShapes[shape].shared(), env, params, split, q_tiles, direct);
  });
}

template <class T>
attn_status splitk_launch_reduce(const ForwardParams& params, const SplitParams& split, const attn_env* env) {
  const int64_t blocks = (split.rows + kReduceWarps - 1) / kReduceWarps;
  return launch(splitk_reduce_kernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kReduceWarps * 32), 0, env,
                params, split);
}

extern template attn_status splitk_launch_partial<F16>(size_t, const ForwardParams&, const SplitParams&, bool,
                                                       const attn_env*);
extern template attn_status splitk_launch_partial<BF16>(size_t, const ForwardParams&, const SplitParams&, bool,
                                                        const attn_env*);
extern template attn_status splitk_launch_partial<F16, true>(size_t, const ForwardParams&, const SplitParams&, bool,
                                                             const attn_env*);
extern template attn_status splitk_launch_partial<BF16, true>(size_t, const ForwardParams&, const SplitParams&, bool,
                                                              const attn_env*);
extern template attn_status splitk_launch_reduce<F16>(const ForwardParams&, const SplitParams&,
                                                      const attn_env*);
extern template attn_status splitk_launch_reduce<BF16>(const ForwardParams&, const SplitParams&,
                                                       const attn_env*);

}  // namespace attn
