// Found before kernels/forward's by the target `peers`: the executor too has all that a GPU has.
#pragma once

namespace attn {

inline constexpr bool kSm90a = true;

}  // namespace attn
