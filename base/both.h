// Marks a function that runs on a GPU as well as on the host: one source of a formula for both.
// Without a CUDA compiler it is empty.
#pragma once

#ifdef __CUDACC__
#define ATTN_BOTH __host__ __device__
#else
#define ATTN_BOTH
#endif
