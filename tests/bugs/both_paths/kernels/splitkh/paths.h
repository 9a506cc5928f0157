// Found before one_shape's: what splitk's decode path does not take goes the other way, as in splitk.
#pragma once

namespace attn {

inline constexpr bool kBothPaths = true;

}  // namespace attn
