// Found before one_shape's: what fa1's sm_90a path does not take goes the other way, as in fa1.
#pragma once

namespace attn {

inline constexpr bool kBothPaths = true;

}  // namespace attn
