#include "properties/memory/case_poison.h"

namespace attnfuzz {
namespace {

// The poison of an output or a workspace. `dtype`: the format of its elements.
uint32_t poison_pattern(Poison poison, int32_t dtype, uint32_t nan, uint32_t number) {
  if (poison == Poison::kNan) return nan;
  if (number != 0) return number;
  if (dtype == ATTN_F16) return 0x7bff7bff;             // 65504
  return dtype == ATTN_BF16 ? 0x71807180 : 0x71800000;  // 2^100
}

}  // namespace

uint32_t output_pattern(const Case& c, TensorId t, const PoisonPatterns& poison) {
  return poison_pattern(c.poison, dtype_of(c.problem, t), poison.output, poison.number);
}

// The pattern is always fp32, though the workspace's size need not be a multiple of 4.
uint32_t workspace_pattern(const Case& c, const PoisonPatterns& poison) {
  return poison_pattern(c.poison, ATTN_F32, poison.workspace, poison.number);
}

}  // namespace attnfuzz
