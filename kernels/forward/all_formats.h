// The domain of a kernel that takes every size in fp16, bf16 and fp32. If dtypes is 0, it has
// only fp16 and bf16.
#pragma once

#include "kernels/attention.h"

namespace attn {

inline constexpr attn_domain kAllFormats = [] {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.dtypes = 1u << ATTN_F16 | 1u << ATTN_BF16 | 1u << ATTN_F32;
  return domain;
}();

}  // namespace attn
