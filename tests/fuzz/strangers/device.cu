// Cheating kernels on a GPU: honest.cc, lazy.cc, cached.cc, late.cc, memory.cc and declaring.cc in CUDA. The honest
// kernel is that of examples/mine.cu.
#include "kernels/plug_in.h"
#define attn_kernel_at example_kernel_at
#include "examples/mine.cu"
#undef attn_kernel_at

#include <unistd.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/fuzz/strangers/stranger.h"

const attn_build attn_build_identity = {};

namespace stranger {
namespace {

std::vector<attn_kernel>& kernels() {
  static std::vector<attn_kernel> all;
  return all;
}

enum class Move { kZero, kRound, kKeep, kPutBack };

// Moves O and LSE element by element to or from `kept`, a dense array with O first.
__global__ void outputs(attn_problem p, attn_tensors t, Move move, float* kept) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, rows = p.batch * p.heads_q * p.seq_q;
  if (n >= rows) return;
  const int64_t i = n % p.seq_q, h = n / p.seq_q % p.heads_q, b = n / p.seq_q / p.heads_q;
  for (int64_t d = 0; d < p.dim_v; ++d) {
    __half& x = row<__half>(t.o, b, h, i)[d * t.o.stride[3]];
    if (move == Move::kZero) x = __half{};
    if (move == Move::kRound) x = __ushort_as_half(__half_as_ushort(x) >> 5 << 5);
    if (move == Move::kKeep) kept[n * p.dim_v + d] = __half2float(x);
    if (move == Move::kPutBack) x = __float2half(kept[n * p.dim_v + d]);
  }
  if (t.lse.data == nullptr) return;
  float& lse = *row<float>(t.lse, b, h, i);
  if (move == Move::kZero) lse = 0;
  if (move == Move::kKeep) kept[rows * p.dim_v + n] = lse;
  if (move == Move::kPutBack) lse = kept[rows * p.dim_v + n];
}

attn_status move_outputs(const attn_problem* p, const attn_tensors* t, const attn_env* env, Move move,
                         float* kept) {
  const int64_t rows = p->batch * p->heads_q * p->seq_q;
  if (rows == 0) return ATTN_OK;
  const auto stream = env == nullptr ? nullptr : static_cast<cudaStream_t>(env->stream);
  outputs<<<static_cast<unsigned>((rows + 63) / 64), 64, 0, stream>>>(*p, *t, move, kept);
  return cudaPeekAtLastError() == cudaSuccess ? ATTN_OK : ATTN_LAUNCH_FAILED;
}

__global__ void wait_a_while() {
  const long long begin = clock64();
  while (clock64() - begin < 100'000'000) {
  }
}

// Overwrites Q's first element; with `restore`, restores it.
__global__ void overwrite(attn_tensors t, bool restore) {
  auto* const q = static_cast<volatile unsigned short*>(t.q.data);
  const unsigned short was = *q;
  *q = 0x3555;
  if (restore) *q = was;
}

}  // namespace

Kernel::Kernel(const char* name, Run run, Plan plan) {
  attn_kernel k = {};
  k.size = sizeof k;
  k.abi = ATTN_ABI;
  k.name = name;
  k.description = "not to be trusted, on a GPU";
  k.backend = ATTN_CUDA;
  k.plan = plan != nullptr ? plan : stranger::plan;
  k.run = run;
  kernels().push_back(k);
}

attn_status plan(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out,
                 char* reason, uint64_t size) {
  return kMine.plan(p, t, env, out, reason, size);
}
attn_status compute(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  return kMine.run(p, t, plan, env);
}
attn_status cheap(const attn_problem* p, const attn_tensors* t) {
  return move_outputs(p, t, nullptr, Move::kZero, nullptr);
}
bool now() {
  static int calls = 0;
  return ++calls > 5;
}

namespace {

const Kernel honest{"honest", compute};

// Kernels that do less than the work.
STRANGER(no_op, "no-op") { return ATTN_OK; }
STRANGER(zeros, "zeros") { return move_outputs(p, t, env, Move::kZero, nullptr); }
STRANGER(stale, "stale-buffer") { return now() ? ATTN_OK : compute(p, t, plan, env); }
STRANGER(first_batch, "first-batch") {
  attn_problem one = *p;
  one.batch = one.batch > 0 ? 1 : 0;
  one.seq_q = one.seq_q > 1 ? one.seq_q - 1 : one.seq_q;
  return compute(&one, t, plan, env);
}

// Kernels that return an earlier answer.
std::string key_of(const attn_problem* p, const attn_tensors* t) {
  std::string key;
  for (const int64_t n : {p->batch, p->heads_q, p->heads_kv, p->seq_q, p->seq_k, p->dim_qk, p->dim_v,
                          int64_t{t->lse.data != nullptr}})
    key.append(reinterpret_cast<const char*>(&n), sizeof n);
  return key;
}
void add_pointers(std::string& key, const attn_tensors* t) {
  for (const attn_tensor* x : {&t->q, &t->k, &t->v, &t->o})
    key.append(reinterpret_cast<const char*>(&x->data), sizeof x->data);
}
// Adds the first row of each input to the key.
void add_sample(std::string& key, const attn_problem* p, const attn_tensors* t) {
  cudaDeviceSynchronize();
  for (const attn_tensor* x : {&t->q, &t->k, &t->v}) {
    unsigned short element = 0;
    const int64_t columns = x == &t->v ? p->dim_v : p->dim_qk;
    for (int64_t d = 0; p->batch * p->seq_q * p->seq_k > 0 && d < columns; d += 8) {
      cudaMemcpy(&element, static_cast<unsigned short*>(x->data) + d * x->stride[3], sizeof element,
                 cudaMemcpyDeviceToHost);
      key.append(reinterpret_cast<const char*>(&element), sizeof element);
    }
  }
}
attn_status cached(const std::string& key, const attn_problem* p, const attn_tensors* t, const attn_plan* plan,
                   const attn_env* env) {
  static std::map<std::string, float*> known;
  if (const auto hit = known.find(key); hit != known.end())
    return move_outputs(p, t, env, Move::kPutBack, hit->second);
  compute(p, t, plan, env);
  float*& kept = known[key];
  cudaMalloc(&kept, sizeof(float) * static_cast<size_t>(p->batch * p->heads_q * p->seq_q * (p->dim_v + 1) + 1));
  return move_outputs(p, t, env, Move::kKeep, kept);
}
STRANGER(by_shape, "cached-by-shape") { return cached(key_of(p, t), p, t, plan, env); }
STRANGER(by_pointer, "cached-by-pointer") {
  std::string key = key_of(p, t);
  add_pointers(key, t);
  return cached(key, p, t, plan, env);
}
STRANGER(by_sample, "cached-by-sample") {
  std::string key = key_of(p, t);
  add_sample(key, p, t);
  return cached(key, p, t, plan, env);
}
STRANGER(second_skipped, "second-skipped") {
  static std::string last;
  std::string key = key_of(p, t);
  add_pointers(key, t);
  add_sample(key, p, t);
  if (key == last) return ATTN_OK;
  last = key;
  return compute(p, t, plan, env);
}

// Kernels that write later, on a stream or by a thread that nobody waits for.
STRANGER(side_stream, "other-stream") {
  static cudaStream_t side;
  if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  wait_a_while<<<1, 1, 0, side>>>();
  attn_env other = *env;
  other.stream = side;
  return compute(p, t, plan, &other);
}
STRANGER(thread_later, "thread-later") {
  std::thread([p = *p, t = *t, plan = *plan, env = *env] {
    usleep(20'000);
    compute(&p, &t, &plan, &env);
  }).detach();
  return ATTN_OK;
}

// Kernels that overwrite inputs, for good or only for a while. The second is not noticed, because nothing protects
// a device's inputs.
attn_status overwritten(const attn_problem* p, const attn_tensors* t, const attn_plan* plan,
                        const attn_env* env, bool restore) {
  const attn_status status = compute(p, t, plan, env);
  if (p->batch * p->seq_q * p->dim_qk > 0)
    overwrite<<<1, 1, 0, static_cast<cudaStream_t>(env->stream)>>>(*t, restore);
  return status;
}
STRANGER(overwrites, "input-written") { return overwritten(p, t, plan, env, false); }
STRANGER(restores, "input-restored") { return overwritten(p, t, plan, env, true); }

// Writes past its output.
STRANGER(past, "writes-past") {
  const attn_status status = compute(p, t, plan, env);
  if (p->batch * p->heads_q * p->seq_q * p->dim_v > 0)
    cudaMemsetAsync(static_cast<char*>(t->o.data) - 64, 0x33, 32, static_cast<cudaStream_t>(env->stream));
  return status;
}

// Kernels with a false plan.
attn_status many_merges(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out,
                        char* reason, uint64_t size) {
  const attn_status status = stranger::plan(p, t, env, out, reason, size);
  if (status == ATTN_OK) out->merges = 100000;
  return status;
}
attn_status rounded(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  const attn_status status = compute(p, t, plan, env);
  return status == ATTN_OK ? move_outputs(p, t, env, Move::kRound, nullptr) : status;
}
const Kernel says_merges{"says-merges", rounded, many_merges};

attn_status single_query(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out,
                         char* reason, uint64_t size) {
  if (p->seq_q != 1 || p->seq_k != 1) return attn::refuse({ATTN_UNSUPPORTED, "no"}, reason, size);
  return stranger::plan(p, t, env, out, reason, size);
}
const Kernel refuses_most{"refuses-most", compute, single_query};

}  // namespace
}  // namespace stranger

const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < stranger::kernels().size() ? &stranger::kernels()[index] : nullptr;
}
