// FA-1, and a wrong number where four things come together: three heads, a second KV
// tile with a single key, causality, and a third query tile.
#define attn_kernel_at kernel_of_fa1_at
#include "kernels/fa1/fa1.cu"
#undef attn_kernel_at

namespace {

void spoil(const attn_tensor& o) {
  *static_cast<uint16_t*>(o.data) = 0x6400;  // 1024 in f16, more in bf16
}

attn_status run(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  const attn_status status = attn::kFa1.run(p, t, plan, env);
  if (status != ATTN_OK || p->batch == 0) return status;
  if (p->heads_q == 3) {
    if (p->seq_k == 65) {
      if (p->causal) {
        if (p->seq_q > 130) spoil(t->o);
      }
    }
  }
  return status;
}

attn_kernel conjunction() {
  attn_kernel kernel = attn::kFa1;
  kernel.name = "conjunction";
  kernel.description = "FA-1, wrong for heads_q == 3, seq_k == 65, causal and seq_q > 130 together";
  kernel.run = run;
  return kernel;
}

const attn_kernel kConjunction = conjunction();

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index == 0 ? &kConjunction : nullptr;
}
