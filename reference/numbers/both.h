// Marks a function that the oracle on a GPU (cuda/) calls as well as the one on the host:
// one source of a formula for both. Without nvcc it says nothing.
#pragma once

#ifdef __CUDACC__
#define ATTN_BOTH __host__ __device__
#else
#define ATTN_BOTH
#endif
