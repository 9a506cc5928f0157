// Which paths our kernels are built with.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

// True if the kernels are built with their paths for sm_90a. For the executor these take minutes to compile, so
// only the target `peers` builds them: it finds another header of this name first
// (kernels/executor/every_path).
inline constexpr bool kSm90a = kBackend == ATTN_CUDA;

}  // namespace attn
