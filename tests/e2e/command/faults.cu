// Kernels, each with one fault that wrong numbers do not explain: a missing barrier, an uninitialised
// accumulator, an unaligned load of two elements, which x86 allows, and an LSE that grows a little with every
// key, within the bound.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <string.h>

#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

namespace {

constexpr int kThreads = 32;

enum class Fault { kRace, kRegister, kAlignment, kDrift };

template <class T>
__device__ T* row(const attn_tensor& x, int64_t b, int64_t h, int64_t i) {
  return static_cast<T*>(x.data) + b * x.stride[0] + h * x.stride[1] + i * x.stride[2];
}

template <Fault kFault>
__device__ float score(const attn_problem& p, const __half* q, const __half* k) {
  float sum = 0;
  for (int d = 0; d + 1 < p.dim_qk; d += 2) {
    float a = __half2float(q[d]), b = __half2float(q[d + 1]);
    if (kFault == Fault::kAlignment) {
      const uint32_t bits = *reinterpret_cast<const uint32_t*>(q + d);
      __half pair[2];
      memcpy(pair, &bits, sizeof pair);
      a = __half2float(pair[0]), b = __half2float(pair[1]);
    }
    sum += a * __half2float(k[d]) + b * __half2float(k[d + 1]);
  }
  if (p.dim_qk % 2 != 0) sum += __half2float(q[p.dim_qk - 1]) * __half2float(k[p.dim_qk - 1]);
  return sum * p.scale;
}

// One query a block. The first thread computes the maximum and the sum for all threads.
template <Fault kFault>
__global__ void attention(attn_problem p, attn_tensors t) {
  const int64_t i = blockIdx.x % p.seq_q, h = blockIdx.x / p.seq_q % p.heads_q,
                b = blockIdx.x / p.seq_q / p.heads_q;
  const int64_t kv = h / (p.heads_q / p.heads_kv);
  const __half* q = row<__half>(t.q, b, h, i);
  __shared__ float max, sum;
  if (threadIdx.x == 0) {
    max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p.seq_k; ++j) max = fmaxf(max, score<kFault>(p, q, row<__half>(t.k, b, kv, j)));
    for (int64_t j = 0; j < p.seq_k; ++j) sum += expf(score<kFault>(p, q, row<__half>(t.k, b, kv, j)) - max);
    const float drift = kFault == Fault::kDrift ? 0x1p-22f * p.seq_k : 0;
    if (t.lse.data) *row<float>(t.lse, b, h, i) = sum == 0 ? -INFINITY : max + logf(sum) + drift;
  }
  if (kFault != Fault::kRace) __syncthreads();
  for (int d = threadIdx.x; d < p.dim_v; d += kThreads) {
    float o;
    if (kFault != Fault::kRegister) o = 0;
    for (int64_t j = 0; j < p.seq_k; ++j)
      o += expf(score<kFault>(p, q, row<__half>(t.k, b, kv, j)) - max) *
           __half2float(row<__half>(t.v, b, kv, j)[d]);
    row<__half>(t.o, b, h, i)[d] = __float2half(sum == 0 ? 0 : o / sum);
  }
}

const char* unsupported(const attn_problem& p) {
  if (p.dtype != ATTN_F16) return "only fp16";
  if (p.dim_qk > 64 || p.dim_v > 64) return "head dimensions above 64";
  if (p.causal || p.has_mask || p.has_key_lengths || p.bias_dtype != ATTN_NONE || p.softcap != 0 ||
      p.window_left >= 0 || p.window_right >= 0)
    return "no masks, no bias, no softcap";
  return attn::product_within(p.batch, p.heads_q, p.seq_q, 10000) < 0 ? "too many queries" : nullptr;
}

template <Fault kFault>
struct Faulty {
  static constexpr const char* kName = kFault == Fault::kRace       ? "race"
                                       : kFault == Fault::kRegister ? "register"
                                       : kFault == Fault::kDrift    ? "drift"
                                                                    : "alignment";
  static constexpr const char* kDescription = "a block a query, fp16, with a fault";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    if (const char* why = unsupported(call.problem)) return {ATTN_UNSUPPORTED, why};
    for (const attn_tensor* x : {&call.tensors.q, &call.tensors.k, &call.tensors.v, &call.tensors.o})
      if (x->stride[3] != 1) return {ATTN_UNSUPPORTED, "elements of a row lie side by side"};
    *plan = attn::plain_plan("a block a query", 1, call.problem.seq_k);
    return {};
  }
  static attn_status run(const attn::Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const int64_t blocks = p.batch * p.heads_q * p.seq_q;
    if (blocks == 0) return ATTN_OK;
    return attn::launch(attention<kFault>, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, &call.env, p,
                        attn::strided(p, call.tensors));
  }
};

const attn_kernel kKernels[] = {
    attn::plug_in<Faulty<Fault::kRace>>(), attn::plug_in<Faulty<Fault::kRegister>>(),
    attn::plug_in<Faulty<Fault::kAlignment>>(), attn::plug_in<Faulty<Fault::kDrift>>()};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index < 4 ? &kKernels[index] : nullptr; }
