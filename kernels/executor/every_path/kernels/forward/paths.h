// The target `peers` finds this header before kernels/forward/paths.h, so that the executor gets all paths of a
// GPU build.
#pragma once

namespace attn {

inline constexpr bool kSm90a = true;

}  // namespace attn
