// The backward pass of attention in one walk. Each block computes dK and dV of its keys, and adds the part of
// dQ that comes from these keys to sums in global memory (../fa1_backward/walks.md). README.md is the manual.
#include "kernels/fa1_backward_fused/kernel.h"
#include "kernels/forward/paths.h"

namespace attn::backward {
namespace {

const attn_kernel kKernel = plug_in<FusedBackward<kSm90a>>();

}  // namespace
}  // namespace attn::backward

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::backward::kKernel : nullptr; }
