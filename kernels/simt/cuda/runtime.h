// <cuda_runtime.h> on the executor: the device API, the host's, and launches.
#pragma once

#ifdef ATTN_APART
#include "kernels/simt/cuda/apart.h"
#endif

#include <assert.h>

#include "kernels/simt/cuda/api.h"
#include "kernels/simt/cuda/host.h"
#include "kernels/simt/cuda/launch.h"
