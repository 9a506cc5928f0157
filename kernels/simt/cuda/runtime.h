// <cuda_runtime.h> on the executor: the device API, the host's, and launches.
#pragma once

#include <assert.h>

#include "kernels/simt/cuda/api.h"
#include "kernels/simt/cuda/host.h"
#include "kernels/simt/cuda/launch.h"
