// splitk as it runs on sm_90a, in one small instantiation of each path, for the CPU
// executor. A problem that the decode path does not take goes to the other path or is
// refused (fast_paths.h).
#include "kernels/fast_paths.h"
#include "kernels/splitk/hopper/hopper.cu"
#include "kernels/splitk/hopper/latent.cu"
#include "kernels/splitk/plan.h"
#include "kernels/splitk/splitk_bf16.cu"
#include "kernels/splitk/splitk_f16.cu"
#include "kernels/splitk/splitk_narrow.cu"
#include "kernels/splitk/splitk_reduce.cu"
#include "kernels/splitk/splitk_wide.cu"

namespace attn {
namespace {

constexpr SplitkPaths kPaths = {true, kBothPaths, true};

struct Splitkh : SplitkOn<kPaths> {
  static constexpr const char* kName = "splitkh";
  static constexpr const char* kDescription = "splitk as on sm_90a, on the CPU executor";
  static constexpr std::array kVariants = {"small"};
};

const attn_kernel kSplitkh = plug_in<Splitkh>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kSplitkh : nullptr; }
