// Kernels that sometimes make a GPU unusable. A campaign must survive and report that.
//
//   planted_faults.so:illegal   if seq_k is 65 or more, it writes to address 0
//   planted_faults.so:hang      if seq_k is 65 or more, it spins, and ends by itself after 60 s
//
// If seq_k is below 65, they take cases with one query and one key, whose right answer is V. They refuse all
// other cases.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/plug_in.h"

namespace {

constexpr int64_t kTrigger = 65;
constexpr unsigned long long kSpinNanoseconds = 60'000'000'000ull;

__global__ void write_to_null(int* nowhere) { *nowhere = 1; }

__global__ void spin() {
  unsigned long long begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < kSpinNanoseconds);
}

// One key: its probability is 1, whatever its score.
__global__ void only_key(attn_problem p, attn_tensors t) {
  const unsigned short* v = static_cast<const unsigned short*>(t.v.data);
  unsigned short* o = static_cast<unsigned short*>(t.o.data);
  for (int64_t d = threadIdx.x; d < p.dim_v; d += blockDim.x) o[d * t.o.stride[3]] = v[d * t.v.stride[3]];
  if (threadIdx.x != 0 || t.lse.data == nullptr) return;
  float score = 0;
  for (int64_t d = 0; d < p.dim_qk; ++d) {
    float q = 0, k = 0;
    if (p.dtype == ATTN_F16) {
      q = __half2float(static_cast<const __half*>(t.q.data)[d * t.q.stride[3]]);
      k = __half2float(static_cast<const __half*>(t.k.data)[d * t.k.stride[3]]);
    } else {
      q = __bfloat162float(static_cast<const __nv_bfloat16*>(t.q.data)[d * t.q.stride[3]]);
      k = __bfloat162float(static_cast<const __nv_bfloat16*>(t.k.data)[d * t.k.stride[3]]);
    }
    score += q * k;
  }
  static_cast<float*>(t.lse.data)[0] = score * p.scale;
}

const char* unsupported(const attn_problem& p) {
  if (p.seq_k >= kTrigger && p.seq_k <= 4096 && p.batch >= 1 && p.heads_q >= 1 && p.seq_q >= 1 &&
      p.seq_q <= 4096 && p.softcap == 0 && !p.has_mask && !p.has_key_lengths && p.bias_dtype == ATTN_NONE)
    return nullptr;
  if (p.batch != 1 || p.heads_q != 1 || p.heads_kv != 1 || p.seq_q != 1 || p.seq_k != 1)
    return "not supported: more than one query or key";
  if (p.softcap != 0 || p.causal || p.window_left >= 0 || p.window_right >= 0 || p.has_mask ||
      p.has_key_lengths || p.bias_dtype != ATTN_NONE)
    return "not supported: anything but plain attention";
  return nullptr;
}

template <bool hangs>
struct Planted {
  static constexpr const char* kName = hangs ? "hang" : "illegal";
  static constexpr const char* kDescription = "takes the GPU away where seq_k is 65 or more";
  static constexpr attn_backend kBackend = ATTN_CUDA;

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    if (const char* why = unsupported(call.problem)) return {ATTN_UNSUPPORTED, why};
    *plan = attn::plain_plan("planted fault", 64, call.problem.seq_k);
    return {};
  }

  static attn_status run(const attn::Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    if (unsupported(p)) return ATTN_UNSUPPORTED;
    const auto stream = static_cast<cudaStream_t>(call.env.stream);
    if (p.seq_k >= kTrigger) {
      if (hangs) {
        spin<<<1, 1, 0, stream>>>();
      } else {
        write_to_null<<<1, 1, 0, stream>>>(nullptr);
      }
    } else {
      only_key<<<1, 32, 0, stream>>>(p, call.tensors);
    }
    return cudaPeekAtLastError() == cudaSuccess ? ATTN_OK : ATTN_LAUNCH_FAILED;
  }
};

const attn_kernel kernels[] = {attn::plug_in<Planted<false>>(), attn::plug_in<Planted<true>>()};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index < 2 ? &kernels[index] : nullptr; }
