// Poisons the memory that a library allocates by itself in a hosted worker (hosted.h). If the
// library reads such memory before it has written it, it gets NaN, -1 or true instead of the zeros
// that fresh memory holds by chance.
//
// On the CPU, NumPy gets an allocator of ours (a NEP 49 handler), which also checks the redzones
// around each block. All other allocations get malloc's own poison (M_PERTURB). On a GPU, PyTorch
// gets an allocator of ours (torch.cuda.memory.CUDAPluggableAllocator). attnfuzz/poison.py installs
// both.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

// A PyDataMem_Handler of version 1. If a block was written beyond its ends, freeing it aborts the
// process.
ATTN_EXPORT const void* attnfuzz_numpy_memory(void);

// Only in the CUDA library. Freed memory is filled with poison again before its next use. Small
// blocks are reused soon: a call that frees a block and allocates one of the same size launches one
// fill for both.
ATTN_EXPORT void* attnfuzz_device_memory(ssize_t bytes, int32_t device, void* stream);
ATTN_EXPORT void attnfuzz_free_device_memory(void* memory, ssize_t bytes, int32_t device, void* stream);

#ifdef __cplusplus
}
#endif
