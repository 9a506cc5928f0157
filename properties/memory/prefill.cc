#include "properties/memory/prefill.h"

namespace attnfuzz {
namespace {

// What an output or a workspace of a dtype is prefilled with.
uint32_t prefill_pattern(Prefill prefill, int32_t dtype, uint32_t nan, uint32_t number) {
  if (prefill == Prefill::kNan) return nan;
  if (number != 0) return number;
  if (dtype == ATTN_F16) return 0x7bff7bff;             // 65504
  return dtype == ATTN_BF16 ? 0x71807180 : 0x71800000;  // 2^100
}

}  // namespace

uint32_t output_pattern(const Case& c, TensorId t, const Poison& poison) {
  return prefill_pattern(c.prefill, dtype_of(c.problem, t), poison.output, poison.number);
}

// All ones whatever its size, which need not be a multiple of anything.
uint32_t workspace_pattern(const Case& c, const Poison& poison) {
  return prefill_pattern(c.prefill, ATTN_F32, poison.workspace, poison.number);
}

}  // namespace attnfuzz
