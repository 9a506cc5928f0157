#include "kernels/executor/arithmetic/arithmetic.h"

#include <bit>

#include "kernels/executor/arithmetic/device_math.h"

namespace simt {

constinit thread_local const device::Model* arithmetic = nullptr;

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
