// The shapes for which Split-K is compiled.
#pragma once

#include "kernels/forward/shapes.h"

namespace attn {

// {variant, columns, query rows of a tile, keys of a tile}. Splits are for problems with few queries, so 64
// rows suffice.
inline constexpr std::array kSplitkShapes = {
    ShapeSpec{1, 64, 64, 64},
    ShapeSpec{1, 128, 64, 64},
    ShapeSpec{1, 256, 64, 32},
    ShapeSpec{2, 64, 64, 128},
};

}  // namespace attn
