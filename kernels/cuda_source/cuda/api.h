// All of the device API for plain CUDA code. kernels/cuda_source/README.md lists it.
#pragma once

#include <math.h>
#include <stdio.h>

#include "kernels/executor/cuda_words.h"
#include "kernels/cuda_source/cuda/half.h"
#include "kernels/cuda_source/cuda/math.h"
#include "kernels/cuda_source/cuda/sync.h"
#include "kernels/cuda_source/cuda/vector.h"

// What a source assumes is not believed here: nvcc may compile by it, and g++ has no such word.
#define __builtin_assume(...) (static_cast<void>(0))
