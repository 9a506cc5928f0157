// A kernel that answers a probe, and only that: it repeats what it was asked for.
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
  // More than there is room for: the count goes on, the writing does not.
  if (probe->warp == 9) *probe->used = probe->capacity + 7;
  return ATTN_OK;
}

const attn_kernel kernels[] = {fake::kernel("probing", fake::yes, probing)};

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < 1 ? &kernels[index] : nullptr;
}
