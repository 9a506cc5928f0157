// -I kernels/cuda_source/include puts this file in place of the toolkit's, so that sources need no change.
#pragma once
#include "kernels/cuda_source/cuda/cublas.h"
