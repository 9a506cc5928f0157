#include "properties/memory/case_poison.h"

namespace attnfuzz {
namespace {

// The poison of an output or a workspace of a dtype.
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

// fp32 patterns whatever the workspace's size, which need not be a multiple of anything.
uint32_t workspace_pattern(const Case& c, const PoisonPatterns& poison) {
  return poison_pattern(c.poison, ATTN_F32, poison.workspace, poison.number);
}

}  // namespace attnfuzz
