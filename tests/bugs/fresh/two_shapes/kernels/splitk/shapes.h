// Fresh bugs are compiled for 64 and for 128 columns: this header is found before the kernel's own.
#pragma once

#include "kernels/forward/shapes.h"

namespace attn {

inline constexpr std::array kSplitkShapes = {ShapeSpec{1, 64, 64, 64}, ShapeSpec{1, 128, 64, 64}};

}  // namespace attn
