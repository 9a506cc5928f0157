// A complete plug-in with a small kernel: fp16 attention, one thread for each query. Copy the file and
// put your own kernel in.
//
//   cmake -B build -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_PREFIX_PATH=<where attnfuzz is installed>
//   cmake --build build && attnfuzz check build/lib/libattn_mine_cpu.so
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

namespace {

constexpr int kThreads = 64, kMostColumns = 64;

template <class T>
__device__ T* row(const attn_tensor& x, int64_t b, int64_t h, int64_t i) {
  return static_cast<T*>(x.data) + b * x.stride[0] + h * x.stride[1] + i * x.stride[2];
}

__global__ void attention(attn_problem p, attn_tensors t) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= p.batch * p.heads_q * p.seq_q) return;
  const int64_t i = n % p.seq_q, h = n / p.seq_q % p.heads_q, b = n / p.seq_q / p.heads_q;
  const int64_t kv = h / (p.heads_q / p.heads_kv);
  const int64_t diagonal = p.align == ATTN_BOTTOM_RIGHT ? i + p.seq_k - p.seq_q : i;
  const int64_t keys = p.causal && diagonal + 1 < p.seq_k ? diagonal + 1 : p.seq_k;

  const __half* q = row<__half>(t.q, b, h, i);
  const auto score = [&](int64_t j) {
    const __half* k = row<__half>(t.k, b, kv, j);
    float sum = 0;
    for (int d = 0; d < p.dim_qk; ++d)
      sum += __half2float(q[d * t.q.stride[3]]) * __half2float(k[d * t.k.stride[3]]);
    return sum * p.scale;
  };
  float max = -INFINITY, sum = 0, o[kMostColumns] = {};
  for (int64_t j = 0; j < keys; ++j) max = fmaxf(max, score(j));
  for (int64_t j = 0; j < keys; ++j) {
    const float weight = expf(score(j) - max);
    const __half* v = row<__half>(t.v, b, kv, j);
    sum += weight;
    for (int d = 0; d < p.dim_v; ++d) o[d] += weight * __half2float(v[d * t.v.stride[3]]);
  }
  __half* out = row<__half>(t.o, b, h, i);
  for (int d = 0; d < p.dim_v; ++d) out[d * t.o.stride[3]] = __float2half(sum == 0 ? 0 : o[d] / sum);
  if (t.lse.data) *row<float>(t.lse, b, h, i) = sum == 0 ? -INFINITY : max + logf(sum);
}

const char* unsupported(const attn_problem& p) {
  if (p.dtype != ATTN_F16) return "formats other than fp16";
  if (p.dim_qk > kMostColumns || p.dim_v > kMostColumns) return "head dimensions above 64";
  if (p.has_mask || p.has_key_lengths || p.bias_dtype != ATTN_NONE || p.softcap != 0 || p.window_left >= 0 ||
      p.window_right >= 0)
    return "masks other than the causal one, biases, softcaps";
  return attn::product_within(p.batch, p.heads_q, p.seq_q, attn::kMaxBlocks) < 0 ? "too many queries" : nullptr;
}

attn_status launch(const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  const int64_t blocks = attn::ceil_div(p.batch * p.heads_q * p.seq_q, kThreads);
  if (blocks == 0) return ATTN_OK;
  return attn::launch(attention, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), 0, &env, p, t);
}

struct Mine {
  static constexpr const char *kName = "mine", *kDescription = "one thread per query, fp16";
  static constexpr attn_backend kBackend = attn::kBackend;           // what this is compiled for
  static constexpr const attn_build* kBuild = &attn_build_identity;  // so that a stale library is refused

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    if (const char* why = unsupported(call.problem)) return {ATTN_UNSUPPORTED, why};
    *plan = attn::plain_plan("one thread per query", kThreads, call.problem.seq_k);
    return {};
  }
  static attn_status run(const attn::Call& call, const attn_plan&) {
    return launch(call.problem, attn::strided(call.problem, call.tensors), call.env);
  }
};

const attn_kernel kMine = attn::plug_in<Mine>();

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kMine : nullptr; }
