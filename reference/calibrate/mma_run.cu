#include <stdexcept>

#include "reference/calibrate/mma_kernel.h"
#include "reference/calibrate/mma_run.h"
#include "kernels/primitives/launch.h"

namespace attn {
namespace {

template <class T>
attn_status start(const uint16_t* a, const uint16_t* b, float* c, size_t count, const attn_env& env) {
  static_assert(sizeof(T) == sizeof(uint16_t));
  return launch(mma_kernel<T>, dim3(static_cast<unsigned>(count)), dim3(32), 0, &env,
                reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), c);
}

}  // namespace

std::vector<float> run_mma(const MmaBatch& batch, bool bf16, const attn_env& env) {
  DeviceArray<uint16_t> a(batch.a), b(batch.b);
  DeviceArray<float> c(batch.c);
  const size_t count = batch.c.size() / 128;
  const attn_status status = bf16 ? start<BF16>(a.data(), b.data(), c.data(), count, env)
                                  : start<F16>(a.data(), b.data(), c.data(), count, env);
  if (status != ATTN_OK) throw std::runtime_error("the mma probe could not be launched, or was stopped");
  return c.read();
}

}  // namespace attn
