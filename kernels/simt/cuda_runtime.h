// <cuda_runtime.h> on the executor: the device API, the host's, and launches.
#pragma once

#include <assert.h>

#include "kernels/simt/cuda_api.h"
#include "kernels/simt/cuda_host.h"
#include "kernels/simt/cuda_launch.h"
