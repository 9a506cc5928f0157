// Found before one_shape's, which says what these are.
#pragma once

namespace attn {

inline constexpr bool kBothPaths = true;
inline constexpr bool kCausalShape = true;
inline constexpr bool kEveryShape = false;

}  // namespace attn
