// The shapes for which FA-1's general path is compiled.
#pragma once

#include "kernels/forward/shapes.h"

namespace attn {

// {variant, columns, query rows of a tile, keys of a tile}. Small tiles let short sequences reach every tile
// border; large tiles are fast on a GPU. 256 columns have one shape only: more does not fit the registers and
// the shared memory of an sm_86.
inline constexpr std::array kFa1Shapes = {
    ShapeSpec{1, 64, 64, 64},   ShapeSpec{1, 128, 64, 64},  ShapeSpec{1, 256, 64, 32},
    ShapeSpec{2, 64, 128, 128}, ShapeSpec{2, 128, 128, 64},
};

}  // namespace attn
