// Found before those of tests/bugs, whose one_shape says what these are.
#pragma once

namespace attn {

inline constexpr bool kBothPaths = true;
inline constexpr bool kCausalShape = true;
inline constexpr bool kEveryShape = true;

}  // namespace attn
