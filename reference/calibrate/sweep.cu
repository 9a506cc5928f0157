#include <float.h>
#include <math.h>
#include <string.h>

#include <stdexcept>
#include <vector>

#include "reference/calibrate/sweep.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/warp.h"

namespace attn {
namespace {

constexpr double kSmallestNormal = 0x1p-126;
// Near a threshold a result may be flushed or overflow within its own error.
constexpr double kThresholdSlack = 0x1p-20;

struct Ex2 {
  __device__ static float approximate(float x) { return ex2(x); }
  __device__ static double exact(double x) { return ::exp2(x); }
  __device__ static bool absolute(float) { return false; }
};

struct Lg2 {
  __device__ static float approximate(float x) { return lg2(x); }
  __device__ static double exact(double x) { return ::log2(x); }
  __device__ static bool absolute(float x) { return x >= 0.5f && x <= 2.0f; }
};

struct Rcp {
  __device__ static float approximate(float x) { return rcp(x); }
  __device__ static double exact(double x) { return 1.0 / x; }
  __device__ static bool absolute(float) { return false; }
};

struct Tanh {
  __device__ static float approximate(float x) { return attn::tanh(x); }
  __device__ static double exact(double x) { return ::tanh(x); }
  __device__ static bool absolute(float) { return false; }
};

__device__ inline bool is_nan(double x) { return x != x; }
__device__ inline bool is_infinite(double x) { return x - x != 0 && x == x; }
__device__ inline bool same_value(float a, float b) {
  uint32_t bits_a, bits_b;
  memcpy(&bits_a, &a, sizeof a);
  memcpy(&bits_b, &b, sizeof b);
  return bits_a == bits_b || (is_nan(a) && is_nan(b));
}

// False if the result is of the wrong kind.
__device__ inline bool observe_result(uint32_t bits, double exact, float got, bool absolute, Findings& f) {
  if (is_nan(exact)) return is_nan(got);
  if (is_infinite(exact) || exact == 0) return same_value(got, static_cast<float>(exact));
  if (is_nan(got) || signbit(got) != signbit(exact)) return false;
  const double size = ::fabs(exact);
  if (got == 0) {
    ++f.results_flushed;
    if (size > f.largest_flushed) f.largest_flushed = size;
    return size < kSmallestNormal * (1 + kThresholdSlack);
  }
  if (is_infinite(got)) {
    if (f.smallest_infinite == 0 || size < f.smallest_infinite) f.smallest_infinite = size;
    return size > FLT_MAX * (1 - kThresholdSlack);
  }
  if (size < kSmallestNormal) ++f.results_kept;
  const double unit = absolute ? 1.0 : size < kSmallestNormal ? kSmallestNormal : size;
  const double error = ::fabs(got - exact) / unit;
  double& worst = absolute ? f.absolute : f.relative;
  if (error > worst) {
    worst = error;
    (absolute ? f.absolute_at : f.relative_at) = bits;
  }
  return true;
}

template <class F>
__device__ void observe(uint32_t bits, Findings& f) {
  float x;
  memcpy(&x, &bits, sizeof x);
  const float got = F::approximate(x);
  ++f.inputs;
  const bool subnormal = (bits & 0x7F800000u) == 0 && (bits & 0x007FFFFFu) != 0;
  if (subnormal && same_value(got, static_cast<float>(F::exact(x < 0 ? -0.0 : 0.0)))) {
    ++f.inputs_flushed;
    return;
  }
  if (subnormal) ++f.inputs_kept;
  if (!observe_result(bits, F::exact(x), got, F::absolute(x), f) && f.wrong++ == 0) f.first_wrong = bits;
}

// Inputs that a coarse sweep would skip: zeros, infinities, NaN, the ends of the subnormal and normal
// numbers, ones, and inputs whose results leave the normal numbers.
template <class F>
__device__ void observe_special(Findings& f) {
  const uint32_t special[] = {0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x3F000000,
                              0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x40000000, 0x42FC0000,
                              0x42FE0000, 0x42FFFFFF, 0x43000000, 0x43150000, 0x7E800000,
                              0x7E800001, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000};
  for (const uint32_t bits : special) {
    observe<F>(bits, f);
    observe<F>(bits | 0x80000000u, f);
  }
}

// Thread t of T takes inputs t, t + T, ... Each has its own findings; the host merges them.
template <class F>
__global__ void sweep_kernel(uint64_t inputs, uint32_t stride, Findings* findings) {
  const uint64_t threads = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Findings mine = {};
  if (thread == 0) observe_special<F>(mine);
  for (uint64_t i = thread; i < inputs; i += threads) observe<F>(static_cast<uint32_t>(i * stride), mine);
  findings[thread] = mine;
}

template <class F>
attn_status launch_sweep(uint64_t inputs, uint32_t stride, Findings* findings, const Device& device) {
  return launch(sweep_kernel<F>, dim3(device.sweep_blocks), dim3(device.sweep_threads), 0, &device.env, inputs,
                stride, findings);
}

void merge(const Findings& part, Findings& all) {
  all.inputs += part.inputs;
  if (part.relative > all.relative) all.relative = part.relative, all.relative_at = part.relative_at;
  if (part.absolute > all.absolute) all.absolute = part.absolute, all.absolute_at = part.absolute_at;
  all.inputs_flushed += part.inputs_flushed;
  all.inputs_kept += part.inputs_kept;
  all.results_flushed += part.results_flushed;
  all.results_kept += part.results_kept;
  if (part.largest_flushed > all.largest_flushed) all.largest_flushed = part.largest_flushed;
  if (part.smallest_infinite > 0 &&
      (all.smallest_infinite == 0 || part.smallest_infinite < all.smallest_infinite)) {
    all.smallest_infinite = part.smallest_infinite;
  }
  if (part.wrong > 0 && (all.wrong == 0 || part.first_wrong < all.first_wrong))
    all.first_wrong = part.first_wrong;
  all.wrong += part.wrong;
}

}  // namespace

Findings sweep(Function function, uint32_t stride, const Device& device) {
  const uint64_t inputs = ((uint64_t{1} << 32) + stride - 1) / stride;
  DeviceArray<Findings> findings(static_cast<size_t>(device.sweep_blocks) * device.sweep_threads);
  attn_status status = ATTN_INVALID;
  switch (function) {
    case Function::kEx2:
      status = launch_sweep<Ex2>(inputs, stride, findings.data(), device);
      break;
    case Function::kLg2:
      status = launch_sweep<Lg2>(inputs, stride, findings.data(), device);
      break;
    case Function::kRcp:
      status = launch_sweep<Rcp>(inputs, stride, findings.data(), device);
      break;
    case Function::kTanh:
      status = launch_sweep<Tanh>(inputs, stride, findings.data(), device);
      break;
  }
  if (status != ATTN_OK) throw std::runtime_error("the sweep could not be launched, or was stopped");
  Findings all = {};
  for (const Findings& part : findings.read()) merge(part, all);
  return all;
}

}  // namespace attn
