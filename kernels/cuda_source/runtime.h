// <cuda_runtime.h> on the executor: the device API, the host's, and launches.
#pragma once

#ifdef ATTN_APART
#include "kernels/cuda_source/apart.h"
#endif

#include <assert.h>

#include "kernels/cuda_source/cuda/api.h"
#include "kernels/cuda_source/cuda/host.h"
#include "kernels/cuda_source/cuda/launch.h"
