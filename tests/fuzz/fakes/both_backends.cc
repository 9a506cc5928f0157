// One kernel for the CPU and two for a GPU. One of these has the same name as the CPU kernel.
#include "tests/fuzz/fakes/fake.h"
static attn_kernel on_gpu(const char* name) {
  attn_kernel k = fake::kernel(name, fake::yes, fake::nothing);
  k.backend = ATTN_CUDA;
  return k;
}
static const attn_kernel kernels[] = {on_gpu("one"), fake::kernel("one", fake::yes, fake::nothing),
                                      on_gpu("other")};
extern "C" const attn_kernel* attn_kernel_at(uint32_t index) { return index < 3 ? &kernels[index] : nullptr; }
