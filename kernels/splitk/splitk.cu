// Split-K's descriptor: the decode path on an sm_90a, and else the general one.
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
