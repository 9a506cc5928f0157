#include "properties/judge/twin.h"

#include <algorithm>

namespace attnfuzz {
namespace {

// Of an H200; a worker gives a kernel no more (fuzz/worker/memory_cuda.cc).
constexpr int32_t kCapability = 90;
constexpr int64_t kSharedMemory = 232448;

}  // namespace

std::string cannot_be_compared(const KernelInfo& target, const KernelInfo& twin) {
  if (target.backend == twin.backend || target.device.find("H200") != std::string::npos) return "";
  return "the executor has the arithmetic of an H200, and this is " + target.device;
}

Case case_of_twin(Case c, const KernelInfo& target, const KernelInfo& twin) {
  c.lane = twin.lane;
  if (target.backend == twin.backend) return c;
  c.env.arithmetic = ATTN_ARITHMETIC_H200;
  c.env.compute_capability = std::min(c.env.compute_capability, kCapability);
  c.env.shared_memory_limit = std::min(c.env.shared_memory_limit, kSharedMemory);
  return c;
}

}  // namespace attnfuzz
