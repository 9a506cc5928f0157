// Mutants are compiled in a few small instantiations, so that there is a choice
// to make: this header is found before the kernel's own.
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
