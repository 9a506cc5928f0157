#include "kernels/simt/arithmetic/arithmetic.h"

#include <bit>

#include "kernels/simt/arithmetic/device_math.h"

namespace simt {

constinit thread_local const Arithmetic* arithmetic = nullptr;

const Arithmetic* arithmetic_of(int32_t number) {
  static const Arithmetic h200{device::h200_functions(), device::kHopperProducts};
  static const Arithmetic ampere{device::h200_functions(), device::kAmpereProducts};
  switch (number) {
    case ATTN_ARITHMETIC_H200:
      return &h200;
    case ATTN_ARITHMETIC_A100:
    case ATTN_ARITHMETIC_L40S:
      return &ampere;
    default:
      return nullptr;
  }
}

float device_ex2(float x) {
  return std::bit_cast<float>(device::ex2(arithmetic->functions, std::bit_cast<uint32_t>(x)));
}
float device_lg2(float x) {
  return std::bit_cast<float>(device::lg2(arithmetic->functions, std::bit_cast<uint32_t>(x)));
}
float device_rcp(float x) {
  return std::bit_cast<float>(device::rcp(arithmetic->functions, std::bit_cast<uint32_t>(x)));
}
float device_rsqrt(float x) {
  return std::bit_cast<float>(device::rsqrt(arithmetic->functions, std::bit_cast<uint32_t>(x)));
}

}  // namespace simt
