// Two kernels that are fa1 with one wrong number if four things come together:
//   conjunction         three heads, a second KV tile with a single key, causality, and a third query tile
//   conjunction-window  two batch entries, a soft cap, a window of a tile, and a fourth KV tile
// The weights of the mutations were chosen with the first bug in view; the second bug was
// written afterwards.
#define attn_kernel_at kernel_of_fa1_at
#include "kernels/fa1/fa1.cu"
#undef attn_kernel_at

namespace {

// Nested branches, as in real bugs, so that coverage sees partial matches.
bool meets_first(const attn_problem& p) {
  if (p.heads_q == 3) {
    if (p.seq_k == 65) {
      if (p.causal) {
        if (p.seq_q > 130) return true;
      }
    }
  }
  return false;
}

bool meets_second(const attn_problem& p) {
  if (p.batch == 2) {
    if (p.softcap != 0) {
      if (p.window_left == 64) {
        if (p.seq_k > 192) return true;
      }
    }
  }
  return false;
}

template <bool (*Meets)(const attn_problem&)>
attn_status run(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  const attn_status status = attn::kFa1.run(p, t, plan, env);
  if (status != ATTN_OK || p->batch == 0 || p->seq_q == 0) return status;
  if (Meets(*p)) *static_cast<uint16_t*>(t->o.data) = 0x6400;  // 1024 in f16, more in bf16
  return status;
}

attn_kernel wrong(const char* name, const char* description, decltype(attn_kernel::run) run) {
  attn_kernel kernel = attn::kFa1;
  kernel.name = name;
  kernel.description = description;
  kernel.run = run;
  return kernel;
}

const attn_kernel kKernels[] = {
    wrong("conjunction", "FA-1, wrong for heads_q == 3, seq_k == 65, causal and seq_q > 130 together",
          run<meets_first>),
    wrong("conjunction-window",
          "FA-1, wrong for batch == 2, softcap, window_left == 64 and seq_k > 192 together", run<meets_second>),
};

}  // namespace

extern "C" ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < 2 ? &kKernels[index] : nullptr;
}
