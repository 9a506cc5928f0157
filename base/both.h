// Marks a function that runs on a GPU as well as on the host: one source of a formula for both.
// It is empty where no CUDA compiler reads it.
#pragma once

#ifdef __CUDACC__
#define ATTN_BOTH __host__ __device__
#else
#define ATTN_BOTH
#endif
