// The instantiations of the mma path, one .cu for each number of columns.
#pragma once

#include "kernels/fa1/ampere/kernel.h"
#include "kernels/primitives/launch.h"

namespace attn {

template <class T, class Shape>
attn_status ampere_launch(const AmpereParams& params, unsigned blocks, const attn_env* env) {
  return launch(fa1_ampere_kernel<T, Shape>, dim3(blocks), dim3(Shape::kSpec.threads()), Shape::kSpec.shared(),
                env, params);
}

}  // namespace attn

// Instantiates both formats of a shape, in a .cu.
#define ATTN_AMPERE_SHAPE(Shape)                                                                   \
  template attn_status attn::ampere_launch<attn::F16, attn::Shape>(const AmpereParams&, unsigned,  \
                                                                   const attn_env*);               \
  template attn_status attn::ampere_launch<attn::BF16, attn::Shape>(const AmpereParams&, unsigned, \
                                                                    const attn_env*)
