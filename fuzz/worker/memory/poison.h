// Memory that a library asks for by itself, where the worker is hosted (hosted.h): what it reads before
// it has written it is NaN, -1 or true, and never the zeros that fresh memory holds by chance.
//
// On the CPU NumPy is given an allocator of its own (its "handler", NEP 49), which also looks
// whether what lies around a block is as it was; everything else has malloc's own poison (M_PERTURB).
// On a GPU PyTorch is given one (torch.cuda.memory.CUDAPluggableAllocator). attnfuzz/poison.py
// puts both in place.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "kernels/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

// A PyDataMem_Handler of version 1. A block that was written beyond its ends ends the process when it is freed.
ATTN_EXPORT const void* attnfuzz_numpy_memory(void);

// For the CUDA library alone. Freed memory is filled with poison again before its next use, which comes soon
// for small blocks: a call that frees one and asks for another of its size launches one fill for both.
ATTN_EXPORT void* attnfuzz_device_memory(ssize_t bytes, int32_t device, void* stream);
ATTN_EXPORT void attnfuzz_free_device_memory(void* memory, ssize_t bytes, int32_t device, void* stream);

#ifdef __cplusplus
}
#endif
