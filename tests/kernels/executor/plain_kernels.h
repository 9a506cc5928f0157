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
ATTN_EXPORT attn_status run_mixed(const attn_env* env, size_t bytes, bool calls_function, float* out);
ATTN_EXPORT bool may_have(size_t bytes);
ATTN_EXPORT attn_status run_deduced(const attn_env* env, size_t bytes, bool asks, float* out);
ATTN_EXPORT attn_status run_bounded(const attn_env* env, int threads, float* out);
