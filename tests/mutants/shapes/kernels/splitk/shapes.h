// Mutants are compiled in a few small instantiations, among which the kernel chooses. The
// compiler finds this header before the kernel's own.
#pragma once

#include "kernels/forward/shapes.h"

namespace attn {

inline constexpr std::array kSplitkShapes = {
    ShapeSpec{1, 64, 64, 64},
    ShapeSpec{1, 128, 64, 64},
    ShapeSpec{1, 256, 64, 32},
    ShapeSpec{2, 64, 64, 128},
};

}  // namespace attn
