// The instantiations of the decode path, one .cu a head dimension.
#pragma once

#include "kernels/splitk/hopper/kernel.h"

namespace attn {

template <class T, class Shape>
attn_status decode_launch(const DecodeParams& params, unsigned blocks, const attn_env* env) {
  return launch_dependent(
      params.rows <= 8 ? splitk_decode_kernel<T, Shape, 1> : splitk_decode_kernel<T, Shape, 2>, dim3(blocks),
      dim3(DecodeSpec::kThreads), Shape::kSpec.shared(), env, params);
}

}  // namespace attn

// In a .cu: both formats of a shape.
#define ATTN_DECODE_SHAPE(Shape)                                                                   \
  template attn_status attn::decode_launch<attn::F16, attn::Shape>(const DecodeParams&, unsigned,  \
                                                                   const attn_env*);               \
  template attn_status attn::decode_launch<attn::BF16, attn::Shape>(const DecodeParams&, unsigned, \
                                                                    const attn_env*)
