// The executor's headers for a source that is compiled separately from its adapter (ATTN_APART, set by
// attnfuzz_add_kernel). The source sees no name of attnfuzz outside of namespace simt. All headers come before
// its first line, so that its macros (#define D 64) do not change them. In this translation unit the headers'
// names that begin with `attn` are spelled differently, so a kernel may be called attn, attn_kernel or
// attn::Call.
#pragma once

#define attn simt_attn
#define attn_build simt_attn_build
#define attn_domain simt_attn_domain
#define attn_kernel simt_attn_kernel
#define attn_kernel_at simt_attn_kernel_at
#define attn_layout simt_attn_layout
#define attn_partials simt_attn_partials
#define attn_plan simt_attn_plan
#define attn_problem simt_attn_problem
#define attn_sizes simt_attn_sizes
#define attn_tensor simt_attn_tensor
#define attn_tensors simt_attn_tensors

#include <assert.h>

#include "kernels/cuda_source/cuda/api.h"
#include "kernels/cuda_source/cuda/cooperative_groups.h"
#include "kernels/cuda_source/cuda/host.h"
#include "kernels/cuda_source/cuda/launch.h"
#include "kernels/cuda_source/cuda/ptx/ptx.h"
#include "kernels/cuda_source/cuda/wmma.h"

#undef attn
#undef attn_build
#undef attn_domain
#undef attn_kernel
#undef attn_kernel_at
#undef attn_layout
#undef attn_partials
#undef attn_plan
#undef attn_problem
#undef attn_sizes
#undef attn_tensor
#undef attn_tensors
