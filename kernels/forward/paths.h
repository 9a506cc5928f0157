// The paths that our kernels are built with.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

// The paths for sm_90a. For the executor they take minutes to compile and are left to the target `peers`, which
// finds another header of this name first (kernels/executor/every_path).
inline constexpr bool kSm90a = kBackend == ATTN_CUDA;

}  // namespace attn
