// The shapes for which FA-1 is compiled.
#pragma once

#include "kernels/forward/shapes.h"

namespace attn {

// Variant, columns, query rows and keys of a tile. Small tiles reach every border with short sequences, and a
// GPU is fast with large ones. With 256 columns, registers and the shared memory of an sm_86 leave no choice.
inline constexpr std::array kFa1Shapes = {
    ShapeSpec{1, 64, 64, 64},   ShapeSpec{1, 128, 64, 64},  ShapeSpec{1, 256, 64, 32},
    ShapeSpec{2, 64, 128, 128}, ShapeSpec{2, 128, 128, 64},
};

}  // namespace attn
