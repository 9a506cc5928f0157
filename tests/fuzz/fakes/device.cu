// CUDA kernels that behave well, and kernels that misbehave.
#include <cuda_runtime.h>

#include "tests/fuzz/fakes/fake.h"

namespace {

__global__ void copy(const unsigned char* q, unsigned char* o, int bytes) {
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) o[i] = q[i];
}
__global__ void spin(volatile int* stop) {
  while (*stop != 1) {
  }
}

attn_status launched() { return cudaPeekAtLastError() == cudaSuccess ? ATTN_OK : ATTN_LAUNCH_FAILED; }

// Bytes of Q.
int bytes_of(const attn_problem* p) {
  return static_cast<int>(p->batch * p->heads_q * p->seq_q * p->dim_qk * 2);
}

attn_status copy_q(const attn_problem* p, const attn_tensors* t, const attn_plan*, const attn_env* env) {
  copy<<<1, 128, 0, static_cast<cudaStream_t>(env->stream)>>>(
      static_cast<unsigned char*>(t->q.data), static_cast<unsigned char*>(t->o.data), bytes_of(p));
  return launched();
}

attn_status copy_more(const attn_problem* p, const attn_tensors* t, const attn_plan*, const attn_env* env) {
  copy<<<1, 128, 0, static_cast<cudaStream_t>(env->stream)>>>(
      static_cast<unsigned char*>(t->q.data), static_cast<unsigned char*>(t->o.data), bytes_of(p) + 1);
  return launched();
}

attn_status illegal(const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env* env) {
  copy<<<1, 1, 0, static_cast<cudaStream_t>(env->stream)>>>(nullptr, nullptr, 1);
  return launched();
}

attn_status hang(const attn_problem*, const attn_tensors* t, const attn_plan*, const attn_env* env) {
  spin<<<1, 1, 0, static_cast<cudaStream_t>(env->stream)>>>(static_cast<int*>(t->o.data));
  return launched();
}

attn_status too_large(const attn_problem* p, const attn_tensors* t, const attn_plan*, const attn_env* env) {
  copy<<<1, 4096, 0, static_cast<cudaStream_t>(env->stream)>>>(
      static_cast<unsigned char*>(t->q.data), static_cast<unsigned char*>(t->o.data), bytes_of(p));
  const attn_status status = launched();
  cudaGetLastError();
  return status;
}

// Copies the environment that plan() gets into fields of the plan.
attn_status environment(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan,
                        char* reason, uint64_t size) {
  fake::yes(p, t, env, plan, reason, size);
  plan->tile_q = env->compute_capability;
  plan->tile_k = env->shared_memory_limit;
  plan->split_tiles = env->sm_count;
  return ATTN_OK;
}

const attn_kernel* all() {
  static const attn_kernel kernels[] = {
      fake::kernel("copy", environment, copy_q), fake::kernel("copy-more", fake::yes, copy_more),
      fake::kernel("illegal", fake::yes, illegal), fake::kernel("hang", fake::yes, hang),
      fake::kernel("too-large", fake::yes, too_large)};
  static attn_kernel cuda[5];
  for (int i = 0; i < 5; ++i) {
    cuda[i] = kernels[i];
    cuda[i].backend = ATTN_CUDA;
  }
  return cuda;
}

}  // namespace

extern "C" const attn_kernel* attn_kernel_at(uint32_t index) { return index < 5 ? &all()[index] : nullptr; }
