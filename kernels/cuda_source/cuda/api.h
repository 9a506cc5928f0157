// All of the device API for plain CUDA code. kernels/cuda_source/README.md lists it.
#pragma once

#include <math.h>
#include <stdio.h>

#include "kernels/executor/cuda_words.h"
#include "kernels/cuda_source/cuda/half.h"
#include "kernels/cuda_source/cuda/math.h"
#include "kernels/cuda_source/cuda/sync.h"
#include "kernels/cuda_source/cuda/vector.h"

// nvcc may optimise by what a source assumes. The executor ignores assumptions, and g++ does not have this
// builtin.
#define __builtin_assume(...) (static_cast<void>(0))
