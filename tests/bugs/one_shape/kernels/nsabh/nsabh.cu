// nsa_backward as it runs on sm_90a, for the CPU executor. A problem that the variant wgmma
// does not take goes to the other variants or is refused (fast_paths.h).
#include <string_view>

#include "kernels/fast_paths.h"
#include "kernels/nsa_backward/hopper/hopper.cu"
#include "kernels/nsa_backward/kernel.h"

namespace attn::nsa {
namespace {

// The call, on whatever device.
Call on_hopper(Call call) {
  call.env.compute_capability = 90;
  call.env.variant = 0;
  return call;
}

struct Nsabh : SelectedBackward<true> {
  static constexpr const char* kName = "nsabh";
  static constexpr const char* kDescription = "nsa_backward as on sm_90a, on the CPU executor";
  static constexpr std::array kVariants = {"small"};

  static Refusal plan(const Call& call, attn_plan* plan) {
    if (Refusal refusal = SelectedBackward<true>::plan(on_hopper(call), plan)) return refusal;
    if (!kBothPaths && !std::string_view(plan->path).starts_with("wgmma"))
      return {ATTN_UNSUPPORTED, "the variant for sm_90a does not take this problem"};
    return {};
  }

  static attn_status run(const Call& call, const attn_plan& plan) {
    return SelectedBackward<true>::run(on_hopper(call), plan);
  }
};

const attn_kernel kNsabh = plug_in<Nsabh>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kNsabh : nullptr; }
