// Marks a function that the GPU oracle (cuda/) shares with the host's, so that a formula has one source.
// Without nvcc it expands to nothing.
#pragma once

#ifdef __CUDACC__
#define ATTN_BOTH __host__ __device__
#else
#define ATTN_BOTH
#endif
