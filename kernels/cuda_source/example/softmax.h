// The host function. On CUDA its pointers are to device memory.
#pragma once

#include "kernels/attention.h"

ATTN_EXPORT attn_status softmax(const attn_env* env, const float* in, float* out, int rows, int columns);
