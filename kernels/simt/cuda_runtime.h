// <cuda_runtime.h> on the executor: the device API, the host's, and launches.
#ifndef ATTNFUZZ_KERNELS_SIMT_CUDA_RUNTIME_H_
#define ATTNFUZZ_KERNELS_SIMT_CUDA_RUNTIME_H_

#include <assert.h>

#include "kernels/simt/cuda_api.h"
#include "kernels/simt/cuda_host.h"
#include "kernels/simt/cuda_launch.h"

#endif  // ATTNFUZZ_KERNELS_SIMT_CUDA_RUNTIME_H_
