// What FA-1 is compiled for.
#pragma once

#include "kernels/forward/shapes.h"

namespace attn {

// Variant, columns, query rows and keys of a tile. Small tiles reach every
// border with short sequences; large ones are what a GPU is fast with. 256
// columns leave registers, and an sm_86's shared memory, no choice.
inline constexpr std::array kFa1Shapes = {
    ShapeSpec{1, 64, 64, 64},   ShapeSpec{1, 128, 64, 64},  ShapeSpec{1, 256, 64, 32},
    ShapeSpec{2, 64, 128, 128}, ShapeSpec{2, 128, 128, 64},
};

}  // namespace attn
