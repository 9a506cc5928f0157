// Which ways through them our kernels are built with.
#pragma once

#include "kernels/primitives/platform.h"

namespace attn {

// Those for sm_90a. For the executor they are minutes of compilation, and left to the target
// `twins`, which finds another header of this name first (kernels/executor/every_path).
inline constexpr bool kSm90a = kBackend == ATTN_CUDA;

}  // namespace attn
