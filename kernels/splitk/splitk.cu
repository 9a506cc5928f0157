// Split-K's descriptor. On an sm_90a the decode path takes the problems that it can; the general path takes the
// others.
#include "kernels/forward/paths.h"
#include "kernels/splitk/plan.h"

namespace attn {
namespace {

constexpr SplitkPaths kPaths = {kSm90a, true, false};

struct SplitK : SplitkOn<kPaths> {
  static constexpr const char* kName = "splitk";
  static constexpr const char* kDescription =
      "FlashAttention forward over splits of the keys, GQA heads packed, merged by LSE";
  static constexpr std::array kVariants = {"small", "wide"};
};

const attn_kernel kSplitk = plug_in<SplitK>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kSplitk : nullptr; }
