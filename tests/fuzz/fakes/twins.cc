// Two kernels of one name for one back end, which is an error, and one of that name for the other back end,
// which is none.
#include "tests/fuzz/fakes/fake.h"
static const attn_kernel kernels[] = {fake::kernel("first", fake::yes, fake::nothing),
                                      fake::kernel("same", fake::yes, fake::nothing),
                                      [] {
                                        attn_kernel k = fake::kernel("same", fake::yes, fake::nothing);
                                        k.backend = ATTN_CUDA;
                                        return k;
                                      }(),
                                      fake::kernel("same", fake::yes, fake::nothing)};
extern "C" const attn_kernel* attn_kernel_at(uint32_t index) { return index < 4 ? &kernels[index] : nullptr; }
