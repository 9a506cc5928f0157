// Host attention in a plug-in that claims the back end cuda: a right kernel and a wrong one, and oracles with
// plans of their own.
#include <cstdio>
#include <iterator>

#include "tests/properties/export/lse_targets.h"

namespace attnfuzz {
namespace {

template <class Kernel, auto... kArguments>
FakeTarget& target() {
  static Kernel target(kArguments...);
  return target;
}

template <FakeTarget& (*kTarget)()>
attn_status plan(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t size) {
  // The exported program must take these from the device that it finds.
  if (env->backend != ATTN_CUDA || env->stream == nullptr || env->compute_capability != 80 ||
      env->shared_memory_limit > 166912)
    return ATTN_INVALID;
  const PlanReply reply = kTarget().plan(*p, *t, *env);
  *plan = reply.plan;
  std::snprintf(reason, size, "%s", reply.reason.c_str());
  return reply.status;
}

template <FakeTarget& (*kTarget)()>
attn_status run(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  return env->stream == nullptr ? ATTN_LAUNCH_FAILED
                                : kTarget().run(Stage::kAll, *p, *t, *plan, *env, 0).status;
}

template <FakeTarget& (*kTarget)()>
attn_kernel kernel(const char* name, int32_t backend) {
  attn_kernel k = {};
  k.size = sizeof k;
  k.abi = ATTN_ABI;
  k.name = name;
  k.description = "host attention";
  k.backend = backend;
  k.plan = plan<kTarget>;
  k.run = run<kTarget>;
  return k;
}

}  // namespace
}  // namespace attnfuzz

const attn_kernel* attn_kernel_at(uint32_t index) {
  using namespace attnfuzz;
  static const attn_kernel kernels[] = {
      kernel<target<FakeTarget>>("wrong", ATTN_CPU),
      kernel<target<FakeTarget>>("right", ATTN_CUDA),
      kernel<target<FakeTarget, Flaw::kDropsLastKey>>("wrong", ATTN_CUDA),
      kernel<target<MergesDead>>("merges", ATTN_CUDA),
      kernel<target<MergesDead, true>>("merges-to-zero", ATTN_CUDA),
      kernel<target<LeavesSinkOut>>("leaves-sink-out", ATTN_CUDA)};
  return index < std::size(kernels) ? &kernels[index] : nullptr;
}
