// The instantiations of the sm_90a path, one .cu a head dimension.
#pragma once

#include "kernels/fa1/hopper/kernel.h"
#include "kernels/primitives/dependent.h"

namespace attn {

template <class T, class Shape>
attn_status hopper_launch(const HopperParams& params, unsigned blocks, const attn_env* env) {
  return launch_dependent(fa1_hopper_kernel<T, Shape>, dim3(blocks), dim3(Shape::kSpec.threads()),
                          Shape::kSpec.shared(), env, params);
}

}  // namespace attn

// In a .cu: both formats of a shape.
#define ATTN_HOPPER_SHAPE(Shape)                                                                   \
  template attn_status attn::hopper_launch<attn::F16, attn::Shape>(const HopperParams&, unsigned,  \
                                                                   const attn_env*);               \
  template attn_status attn::hopper_launch<attn::BF16, attn::Shape>(const HopperParams&, unsigned, \
                                                                    const attn_env*)
