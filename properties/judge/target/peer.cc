#include "properties/judge/target/peer.h"

#include <algorithm>

#include "reference/model/device_arithmetic.h"

namespace attnfuzz {
namespace {

// An H200's values. A worker gives a kernel no more than this (fuzz/worker/memory/memory_cuda.cc).
constexpr int32_t kCapability = 90;
constexpr int64_t kSharedMemory = 232448;

}  // namespace

std::string cannot_be_compared(const KernelInfo& target, const KernelInfo& peer, int32_t calibrated) {
  if (target.backend == peer.backend) return "";
  const int32_t arithmetic = arithmetic_of_device(target.device);
  if (arithmetic == ATTN_ARITHMETIC_ANY)
    return "the executor has the arithmetic of an H100 or H200, an A100 and an L40S, and this is " +
           target.device;
  if (is_proven(arithmetic) || arithmetic == calibrated) return "";
  return "the executor's arithmetic of " + target.device + " is " + arithmetic_words(arithmetic) +
         ": where 'attnfuzz calibrate --bits --backend cuda --out FILE' finds no bit that differs, "
         "--calibration FILE says that this device has it";
}

Case case_of_peer(Case c, const KernelInfo& target, const KernelInfo& peer) {
  c.build_kind = peer.build_kind;
  if (target.backend == peer.backend) return c;
  c.env.arithmetic = arithmetic_of_device(target.device);
  c.env.compute_capability = std::min(c.env.compute_capability, kCapability);
  c.env.shared_memory_limit = std::min(c.env.shared_memory_limit, kSharedMemory);
  return c;
}

}  // namespace attnfuzz
