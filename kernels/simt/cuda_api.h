// The device API for plain CUDA code, all of it. README.md has the list.
#pragma once

#include <math.h>
#include <stdio.h>

#include "kernels/simt/cuda.h"
#include "kernels/simt/cuda_half.h"
#include "kernels/simt/cuda_math.h"
#include "kernels/simt/cuda_sync.h"
#include "kernels/simt/cuda_vector.h"
