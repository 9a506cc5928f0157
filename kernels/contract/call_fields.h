// The fields of the structs that a call passes besides attn_problem and attn_plan, one row each.
// kernels/attention.h documents them; Python's contract.py is generated from their offsets. The rows of
// attn_tensors are in reference/call/tensor_spec.h.
#pragma once

#include "kernels/contract/field.h"

namespace attnfuzz::contract {

struct CallField {
  Field at;
};

inline constexpr CallField kTensorFields[] = {
    {ATTN_FIELD(attn_tensor, data)},
    {ATTN_FIELD(attn_tensor, stride)},
};
static_assert(covers(kTensorFields, sizeof(attn_tensor)), "each field of attn_tensor has a row, in order");

inline constexpr CallField kReportFields[] = {
    {ATTN_FIELD(attn_report, size)},    {ATTN_FIELD(attn_report, kind)},
    {ATTN_FIELD(attn_report, block)},   {ATTN_FIELD(attn_report, thread)},
    {ATTN_FIELD(attn_report, message)}, {ATTN_FIELD(attn_report, file)},
    {ATTN_FIELD(attn_report, line)},    {ATTN_FIELD(attn_report, shared_bytes)},
};
static_assert(covers(kReportFields, sizeof(attn_report)), "each field of attn_report has a row, in order");

inline constexpr CallField kEnvironmentFields[] = {
    {ATTN_FIELD(attn_env, size)},
    {ATTN_FIELD(attn_env, backend)},
    {ATTN_FIELD(attn_env, sm_count)},
    {ATTN_FIELD(attn_env, compute_capability)},
    {ATTN_FIELD(attn_env, shared_memory_limit)},
    {ATTN_FIELD(attn_env, schedule_seed)},
    {ATTN_FIELD(attn_env, variant)},
    {ATTN_FIELD(attn_env, arithmetic)},
    {ATTN_FIELD(attn_env, stream)},
    {ATTN_FIELD(attn_env, report)},
    {ATTN_FIELD(attn_env, user)},
    {ATTN_FIELD(attn_env, probe)},
};
static_assert(covers(kEnvironmentFields, sizeof(attn_env)), "each field of attn_env has a row, in order");

inline constexpr CallField kKernelFields[] = {
    {ATTN_FIELD(attn_kernel, size)},     {ATTN_FIELD(attn_kernel, abi)},
    {ATTN_FIELD(attn_kernel, name)},     {ATTN_FIELD(attn_kernel, description)},
    {ATTN_FIELD(attn_kernel, backend)},  {ATTN_FIELD(attn_kernel, variant_count)},
    {ATTN_FIELD(attn_kernel, variants)}, {ATTN_FIELD(attn_kernel, build)},
    {ATTN_FIELD(attn_kernel, plan)},     {ATTN_FIELD(attn_kernel, run)},
    {ATTN_FIELD(attn_kernel, partials)}, {ATTN_FIELD(attn_kernel, partial)},
    {ATTN_FIELD(attn_kernel, reduce)},   {ATTN_FIELD(attn_kernel, features)},
    {ATTN_FIELD(attn_kernel, domain)},
};
static_assert(covers(kKernelFields, sizeof(attn_kernel)), "each field of attn_kernel has a row, in order");

}  // namespace attnfuzz::contract
