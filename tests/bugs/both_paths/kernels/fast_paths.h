// The compiler finds this header before one_shape/kernels/fast_paths.h, which explains the constants.
#pragma once

namespace attn {

inline constexpr bool kBothPaths = true;
inline constexpr bool kCausalShape = true;
inline constexpr bool kEveryShape = false;

}  // namespace attn
