// The walk of fa1_backward_fused on wgmma, for the CPU executor. It computes as on sm_90a whatever the device
// is, and refuses other problems, so that a case is reduced on this walk.
#include "kernels/fa1_backward/walk_launch.h"
#include "kernels/fa1_backward_fused/hopper/hopper.cu"
#include "kernels/fa1_backward_fused/kernel.h"

namespace attn::backward {
namespace {

// The call, on whatever device.
Call on_hopper(Call call) {
  call.env.compute_capability = 90;
  call.env.variant = 0;
  return call;
}

struct Fa1bh : FusedBackward<true> {
  static constexpr const char* kName = "fa1bh";
  static constexpr const char* kDescription = "fa1_backward_fused as on sm_90a, on the CPU executor";
  static constexpr std::array kVariants = {"wgmma"};

  static Refusal plan(const Call& call, attn_plan* plan) {
    const Call given = on_hopper(call);
    if (const char* reason = walks_refuse<true>(given)) return {ATTN_UNSUPPORTED, reason};
    if (!groups_take(given)) return {ATTN_UNSUPPORTED, "the walk for sm_90a does not take this problem"};
    return FusedBackward<true>::plan(given, plan);
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const Call given = on_hopper(call);
    if (walks_refuse<true>(given) != nullptr || !groups_take(given)) return ATTN_UNSUPPORTED;
    const WalkParams p = walk_params(given, make_params(given), true);
    return finish_walks(given, p, launch_groups(given, p));
  }
};

const attn_kernel kFa1bh = plug_in<Fa1bh>();

}  // namespace
}  // namespace attn::backward

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::backward::kFa1bh : nullptr; }
