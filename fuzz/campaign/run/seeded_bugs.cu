// Seeded bugs: a small attention kernel in four versions, each with one bug. Every campaign runs the version
// for its build and must find the bug; otherwise its results on other kernels mean nothing.
//
// A thread computes one query. It visits all keys for the maximum, and again for the sums. Each kernel of this
// library has one fault, which one particular build must detect. Every fault shows only at a tile border, seq_k
// = 64 n + 1:
//   seeded-bug                the last key is not seen if it is the first of a tile of 64
//   seeded-bug-address        (asan) reads one key beyond the end
//   seeded-bug-uninitialised  (msan) depends on a word of shared memory that nobody has written
//   seeded-bug-race           (tsan) reads a neighbour's word without a barrier
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>

#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

namespace {

enum Fault { kWrong, kAddress, kUninitialised, kRace };

constexpr int kTile = 64, kThreads = 64, kMaxDim = 64;
constexpr int64_t kMostBlocks = 65535;

struct Args {
  attn_problem p;
  attn_tensors t;
};

template <class T>
__device__ const T* row_of(const attn_tensor& x, int64_t b, int64_t h, int64_t s) {
  return static_cast<const T*>(x.data) + b * x.stride[0] + h * x.stride[1] + s * x.stride[2];
}

template <class T>
__device__ float dot(const Args& a, const T* q, const T* k) {
  float sum = 0;
  for (int d = 0; d < a.p.dim_qk; ++d)
    sum += static_cast<float>(q[d * a.t.q.stride[3]]) * static_cast<float>(k[d * a.t.k.stride[3]]);
  return sum * a.p.scale;
}

template <class T, Fault fault>
__global__ void __launch_bounds__(kThreads) attention(Args a) {
  __shared__ float word[kTile];
  const int64_t tiles = (a.p.seq_q + kTile - 1) / kTile;
  const int64_t tile = blockIdx.x % tiles, h = blockIdx.x / tiles % a.p.heads_q,
                b = blockIdx.x / tiles / a.p.heads_q;
  const int64_t i = tile * kTile + threadIdx.x, kv = h / (a.p.heads_q / a.p.heads_kv);
  const bool border = a.p.seq_k % kTile == 1 && a.p.seq_k > 1;
  float extra = 0;
  if (fault == kUninitialised) {
    if (threadIdx.x != 0 || !border) word[threadIdx.x] = 0;
    __syncthreads();
    if (word[(a.p.seq_k - 1) % kTile] > 1e30f) extra = 1;
  }
  if (fault == kRace) {
    word[threadIdx.x] = 0;
    if (!border) __syncthreads();
    extra = word[(threadIdx.x + 1) % kTile] * 0;
  }
  if (i >= a.p.seq_q) return;

  int64_t keys = a.p.seq_k;
  if (fault == kWrong && border) --keys;
  const T* q = row_of<T>(a.t.q, b, h, i);
  float m = -INFINITY;
  for (int64_t j = 0; j < keys; ++j) m = fmaxf(m, dot<T>(a, q, row_of<T>(a.t.k, b, kv, j)));
  if (fault == kAddress && border) extra = dot<T>(a, q, row_of<T>(a.t.k, b, kv, keys)) > 0 ? 0.0f : -0.0f;
  float o[kMaxDim] = {}, l = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const float p = expf(dot<T>(a, q, row_of<T>(a.t.k, b, kv, j)) - m) + extra;
    const T* v = row_of<T>(a.t.v, b, kv, j);
    l += p;
    for (int d = 0; d < a.p.dim_v; ++d) o[d] += p * static_cast<float>(v[d * a.t.v.stride[3]]);
  }
  T* out = const_cast<T*>(row_of<T>(a.t.o, b, h, i));
  for (int d = 0; d < a.p.dim_v; ++d) out[d * a.t.o.stride[3]] = T(l == 0 ? 0.0f : o[d] / l);
  if (a.t.lse.data != nullptr)
    *const_cast<float*>(row_of<float>(a.t.lse, b, h, i)) = l == 0 ? -INFINITY : m + logf(l);
}

// The first feature of a problem that this kernel does not support, or nullptr.
const char* unsupported(const attn_problem& p) {
  if (p.dim_qk > kMaxDim || p.dim_v > kMaxDim) return "head dimensions above 64";
  if (p.softcap != 0) return "a soft cap";
  if (p.causal || p.window_left >= 0 || p.window_right >= 0 || p.has_key_lengths || p.has_mask ||
      p.bias_dtype != ATTN_NONE)
    return "a mask of any kind";
  const double blocks = (static_cast<double>(p.seq_q) + kTile) / kTile * static_cast<double>(p.heads_q) *
                        static_cast<double>(p.batch);
  return blocks > kMostBlocks ? "more than 65535 blocks" : nullptr;
}

template <Fault fault>
struct SeededBug {
  static constexpr const char* kNames[4] = {"seeded-bug", "seeded-bug-address", "seeded-bug-uninitialised",
                                            "seeded-bug-race"};
  static constexpr const char* kName = kNames[fault];
  static constexpr const char* kDescription = "a kernel with a seeded bug, that every campaign must find";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    if (const char* why = unsupported(call.problem))
      return {ATTN_UNSUPPORTED, std::string("not supported: ") + why};
    *plan = attn::plain_plan("seeded-bug", kTile, call.problem.seq_k);
    return {};
  }

  static attn_status run(const attn::Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    if (unsupported(p)) return ATTN_UNSUPPORTED;
    const int64_t blocks = attn::ceil_div(p.seq_q, kTile) * p.heads_q * p.batch;
    if (blocks == 0) return ATTN_OK;
    const Args args = {p, attn::strided(p, call.tensors)};
    const dim3 grid(static_cast<unsigned>(blocks)), block(kThreads);
    return p.dtype == ATTN_BF16 ? attn::launch(attention<__nv_bfloat16, fault>, grid, block, 0, &call.env, args)
                                : attn::launch(attention<__half, fault>, grid, block, 0, &call.env, args);
  }
};

const attn_kernel kernels[] = {attn::plug_in<SeededBug<kWrong>>(), attn::plug_in<SeededBug<kAddress>>(),
                               attn::plug_in<SeededBug<kUninitialised>>(), attn::plug_in<SeededBug<kRace>>()};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < sizeof kernels / sizeof kernels[0] ? &kernels[index] : nullptr;
}
