// The device API for plain CUDA code, all of it. README.md has the list.
#ifndef ATTNFUZZ_KERNELS_SIMT_CUDA_API_H_
#define ATTNFUZZ_KERNELS_SIMT_CUDA_API_H_

#include <math.h>
#include <stdio.h>

#include "kernels/simt/cuda.h"
#include "kernels/simt/cuda_half.h"
#include "kernels/simt/cuda_math.h"
#include "kernels/simt/cuda_sync.h"
#include "kernels/simt/cuda_vector.h"

#endif  // ATTNFUZZ_KERNELS_SIMT_CUDA_API_H_
