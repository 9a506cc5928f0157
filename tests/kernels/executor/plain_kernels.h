// The functions of plain_kernels.cu that cuda_test.cc calls.
#pragma once

#include "kernels/attention.h"

ATTN_EXPORT attn_status run_unwritten(const attn_env* env, float* out);
ATTN_EXPORT attn_status run_tickets(const attn_env* env, int* out);
ATTN_EXPORT attn_status run_exchange(const attn_env* env, int* wrong);
ATTN_EXPORT attn_status run_numbers(const attn_env* env, int* wrong);
ATTN_EXPORT attn_status run_lock(const attn_env* env, int* mutex, int* counter);
ATTN_EXPORT attn_status run_reductions(const attn_env* env, int* wrong);
ATTN_EXPORT int wrong_products();
