// The descriptor of nsa_backward.
#include "kernels/forward/paths.h"
#include "kernels/nsa_backward/kernel.h"

namespace attn::nsa {
namespace {

const attn_kernel kKernel = plug_in<SelectedBackward<kSm90a>>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kKernel : nullptr; }
