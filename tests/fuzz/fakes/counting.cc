// A kernel whose edges are counted: its loop runs once for each batch entry.
#include "tests/fuzz/fakes/fake.h"

namespace {

attn_status counting(const attn_problem* problem, const attn_tensors*, const attn_plan*, const attn_env*) {
  volatile int64_t done = 0;
#pragma clang loop unroll(disable)
  for (int64_t b = 0; b <= problem->batch; ++b) done = done + 1;
  if (problem->causal) *static_cast<volatile int*>(nullptr) = 0;
  return ATTN_OK;
}

const attn_kernel kernels[] = {fake::kernel("counting", fake::yes, counting)};

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < 1 ? &kernels[index] : nullptr;
}
