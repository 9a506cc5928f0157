// Kernels that cheat: each is right apart from one exploit.
//
//   namespace {
//   STRANGER(no_op, "no-op") { return ATTN_OK; }     // its run()
//   }
//
// tests/e2e/command/untrusted.py lists the reason for which each must be refused. The honest kernel is attention on the
// host (tests/properties/support/fake_attention.h), with all checks of arguments that a plug-in makes.
#pragma once

#include "kernels/attention.h"

namespace stranger {

using Plan = decltype(attn_kernel::plan);
using Run = decltype(attn_kernel::run);

// Adds itself to the library's kernels.
struct Kernel {
  Kernel(const char* name, Run run, Plan plan = nullptr);  // no plan: the honest one
};

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t size);
// The right answer.
attn_status compute(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                    const attn_env* env);
// A cheap answer that is wrong: O = 0 and LSE = 0.
attn_status cheap(const attn_problem* problem, const attn_tensors* tensors);

// True from the sixth call on, so that a first check sees nothing.
bool now();

}  // namespace stranger

// Defines a kernel of this name, in namespace stranger. The block that follows is its run().
#define STRANGER(function, name)                                                                       \
  attn_status function(const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env*);   \
  const Kernel function##_kernel{name, function};                                                      \
  attn_status function([[maybe_unused]] const attn_problem* p, [[maybe_unused]] const attn_tensors* t, \
                       [[maybe_unused]] const attn_plan* plan, [[maybe_unused]] const attn_env* env)
