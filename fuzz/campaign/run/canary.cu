// The canary: a small attention kernel with a bug in it. Every campaign runs it
// and must find the bug, or else what it says of other kernels means nothing.
//
// A thread takes one query, looks at all its keys for the maximum and then again
// for the sums. Each of the library's kernels has one fault, of the kind that a
// lane is there to see; all need a tile border:
//   canary                the last key is not seen where it is the first of a tile of 64
//   canary-address        (asan) one key beyond the end is read there
//   canary-uninitialised  (msan) a word of shared memory that nobody has written decides
//   canary-race           (tsan) a neighbour's word is read without a barrier
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>

#include "kernels/identity.h"
#include "kernels/plain_plan.h"
#include "kernels/primitives/launch.h"

namespace {

enum Fault { kWrong, kAddress, kUninitialised, kRace };

constexpr int kTile = 64, kThreads = 64, kMaxDim = 64;
constexpr int64_t kMaxBlocks = 65535;

struct Args {
  attn_problem p;
  attn_tensors t;
};

// A dimension of one element may carry any stride: it is not to reach an address.
attn_tensor tamed(attn_tensor x, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  const int64_t size[] = {n0, n1, n2, n3};
  for (int i = 0; i < 4; ++i) {
    if (size[i] <= 1) x.stride[i] = 0;
  }
  return x;
}

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

bool is_size(int64_t n) { return n >= 0 && n <= int64_t{1} << 40; }

// What no kernel could do: all that is wrong with this one is its planted fault.
const char* nonsense(const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  if (p.size < sizeof p || t.size < sizeof t || env.size < sizeof env) return "a struct of another contract";
  if (env.backend != attn::kBackend || env.variant != 0) return "another back end, or a variant";
  if (p.dtype != ATTN_F16 && p.dtype != ATTN_BF16) return "dtype is neither f16 nor bf16";
  if (!is_size(p.batch) || !is_size(p.heads_q) || !is_size(p.heads_kv) || !is_size(p.seq_q) ||
      !is_size(p.seq_k) || !is_size(p.num_splits))
    return "a size outside 0..2^40";
  if (p.dim_qk < 1 || p.dim_qk > 256 || p.dim_v < 1 || p.dim_v > 256) return "a head dimension outside 1..256";
  if (p.heads_kv == 0 ? p.heads_q != 0 : p.heads_q % p.heads_kv != 0) return "heads_kv does not divide heads_q";
  if (!isfinite(p.scale) || !isfinite(p.softcap) || p.softcap < 0)
    return "scale or softcap is no number to use";
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT) return "align is not known";
  if (p.bias_dtype < ATTN_NONE || p.bias_dtype > ATTN_F32) return "bias_dtype is not known";
  const bool queries = p.batch > 0 && p.heads_q > 0 && p.seq_q > 0, keys = queries && p.seq_k > 0;
  if ((queries && !t.o.data) || (keys && (!t.q.data || !t.k.data || !t.v.data)) ||
      (keys && p.has_mask && !t.mask.data) || (keys && p.bias_dtype != ATTN_NONE && !t.bias.data) ||
      (queries && p.has_key_lengths && !t.key_lengths))
    return "a tensor that the problem needs is a null pointer";
  return nullptr;
}

// What this one does not do.
const char* unsupported(const attn_problem& p) {
  if (p.dim_qk > kMaxDim || p.dim_v > kMaxDim) return "head dimensions above 64";
  if (p.softcap != 0) return "a soft cap";
  if (p.causal || p.window_left >= 0 || p.window_right >= 0 || p.has_key_lengths || p.has_mask ||
      p.bias_dtype != ATTN_NONE)
    return "a mask of any kind";
  const double blocks = (static_cast<double>(p.seq_q) + kTile) / kTile * static_cast<double>(p.heads_q) *
                        static_cast<double>(p.batch);
  return blocks > kMaxBlocks ? "more than 65535 blocks" : nullptr;
}

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t reason_size) {
  const char* const senseless = nonsense(*problem, *tensors, *env);
  if (const char* why = senseless ? senseless : unsupported(*problem)) {
    if (reason_size > 0) snprintf(reason, reason_size, "not supported: %s", why);
    return senseless ? ATTN_INVALID : ATTN_UNSUPPORTED;
  }
  *plan = plain_plan("canary", kTile, problem->seq_k);
  return ATTN_OK;
}

template <Fault fault>
attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan*,
                const attn_env* env) {
  const attn_problem& p = *problem;
  if (nonsense(p, *tensors, *env)) return ATTN_INVALID;
  if (unsupported(p)) return ATTN_UNSUPPORTED;
  const int64_t blocks = (p.seq_q + kTile - 1) / kTile * p.heads_q * p.batch;
  if (blocks == 0) return ATTN_OK;
  Args args = {*problem, *tensors};
  args.t.q = tamed(args.t.q, p.batch, p.heads_q, p.seq_q, p.dim_qk);
  args.t.k = tamed(args.t.k, p.batch, p.heads_kv, p.seq_k, p.dim_qk);
  args.t.v = tamed(args.t.v, p.batch, p.heads_kv, p.seq_k, p.dim_v);
  args.t.o = tamed(args.t.o, p.batch, p.heads_q, p.seq_q, p.dim_v);
  args.t.lse = tamed(args.t.lse, p.batch, p.heads_q, p.seq_q, 1);
  const dim3 grid(static_cast<unsigned>(blocks)), block(kThreads);
  return p.dtype == ATTN_BF16 ? attn::launch(attention<__nv_bfloat16, fault>, grid, block, 0, env, args)
                              : attn::launch(attention<__half, fault>, grid, block, 0, env, args);
}

template <Fault fault>
constexpr attn_kernel kernel(const char* name) {
  attn_kernel k = {};
  k.size = sizeof(attn_kernel);
  k.abi = ATTN_ABI;
  k.name = name;
  k.description = "a kernel with a planted bug, that every campaign must find";
  k.backend = attn::kBackend;
  k.build = &attn_build_identity;
  k.plan = plan;
  k.run = run<fault>;
  return k;
}

const attn_kernel kernels[] = {kernel<kWrong>("canary"), kernel<kAddress>("canary-address"),
                               kernel<kUninitialised>("canary-uninitialised"), kernel<kRace>("canary-race")};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < sizeof kernels / sizeof kernels[0] ? &kernels[index] : nullptr;
}
