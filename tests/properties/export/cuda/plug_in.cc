// Host attention in a plug-in that claims the back end cuda, with a right kernel and a wrong one.
#include <cstdio>

#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

template <Flaw kFlaw>
FakeTarget& target() {
  static FakeTarget target(kFlaw);
  return target;
}

template <Flaw kFlaw>
attn_status plan(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t size) {
  // The exported program must take these from the device that it finds.
  if (env->backend != ATTN_CUDA || env->stream == nullptr || env->compute_capability != 80 ||
      env->shared_memory_limit > 166912)
    return ATTN_INVALID;
  const PlanReply reply = target<kFlaw>().plan(*p, *t, *env);
  *plan = reply.plan;
  std::snprintf(reason, size, "%s", reply.reason.c_str());
  return reply.status;
}

template <Flaw kFlaw>
attn_status run(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  return env->stream == nullptr ? ATTN_LAUNCH_FAILED
                                : target<kFlaw>().run(Stage::kAll, *p, *t, *plan, *env, 0).status;
}

template <Flaw kFlaw>
attn_kernel kernel(const char* name, int32_t backend) {
  attn_kernel k = {};
  k.size = sizeof k;
  k.abi = ATTN_ABI;
  k.name = name;
  k.description = "host attention";
  k.backend = backend;
  k.plan = plan<kFlaw>;
  k.run = run<kFlaw>;
  return k;
}

}  // namespace
}  // namespace attnfuzz

const attn_kernel* attn_kernel_at(uint32_t index) {
  using namespace attnfuzz;
  static const attn_kernel kernels[] = {kernel<Flaw::kNone>("wrong", ATTN_CPU),
                                        kernel<Flaw::kNone>("right", ATTN_CUDA),
                                        kernel<Flaw::kDropsLastKey>("wrong", ATTN_CUDA)};
  return index < 3 ? &kernels[index] : nullptr;
}
