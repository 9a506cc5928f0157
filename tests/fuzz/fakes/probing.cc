// A kernel that only answers a probe: it records the probe's own request.
#include "tests/fuzz/fakes/fake.h"

namespace {

attn_status probing(const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env* env) {
  const attn_probe* probe = env->probe;
  if (probe == nullptr) return ATTN_OK;
  if (probe->size < sizeof *probe || *probe->used != 0) return ATTN_INVALID;
  const float values[] = {static_cast<float>(probe->block[0]), static_cast<float>(probe->block[1]),
                          static_cast<float>(probe->block[2]), static_cast<float>(probe->warp)};
  for (uint64_t i = 0; i < 4 && i < probe->capacity; ++i) probe->values[i] = values[i];
  *probe->used = 4;
  // More records than fit: only the count grows.
  if (probe->warp == 9) *probe->used = probe->capacity + 7;
  return ATTN_OK;
}

const attn_kernel kernels[] = {fake::kernel("probing", fake::yes, probing)};

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < 1 ? &kernels[index] : nullptr;
}
