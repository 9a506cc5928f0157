#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/forward/checks.h"
#include "kernels/primitives/launch.h"

namespace attn {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;

Refusal invalid(std::string reason) { return {ATTN_INVALID, std::move(reason)}; }

std::string name_value(const char* name, int64_t value) {
  return std::string(name) + " = " + std::to_string(value);
}

Refusal check_sizes(const attn_problem& p) {
  const struct {
    const char* name;
    int64_t value;
  } lengths[] = {{"batch", p.batch}, {"heads_q", p.heads_q}, {"heads_kv", p.heads_kv},
                 {"seq_q", p.seq_q}, {"seq_k", p.seq_k},     {"num_splits", p.num_splits}};
  for (const auto& length : lengths) {
    if (length.value < 0 || length.value > kMaxSize) {
      return invalid(name_value(length.name, length.value) + " is outside 0..2^40");
    }
  }
  if (p.dim_qk < 1 || p.dim_qk > 256) return invalid(name_value("dim_qk", p.dim_qk) + " is outside 1..256");
  if (p.dim_v < 1 || p.dim_v > 256) return invalid(name_value("dim_v", p.dim_v) + " is outside 1..256");
  if (p.heads_kv == 0 ? p.heads_q != 0 : p.heads_q % p.heads_kv != 0) {
    return invalid(name_value("heads_kv", p.heads_kv) + " does not divide " + name_value("heads_q", p.heads_q));
  }
  return {};
}

Refusal check_switches(const attn_problem& p) {
  if (p.dtype != ATTN_F16 && p.dtype != ATTN_BF16)
    return invalid(name_value("dtype", p.dtype) + " is neither f16 nor bf16");
  if (!std::isfinite(p.scale)) return invalid("scale is not finite");
  if (!(p.softcap >= 0) || !std::isfinite(p.softcap))
    return invalid("softcap is neither 0 nor positive and finite");
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT)
    return invalid(name_value("align", p.align) + " is not known");
  if (p.bias_dtype < ATTN_NONE || p.bias_dtype > ATTN_F32)
    return invalid(name_value("bias_dtype", p.bias_dtype) + " is not known");
  return {};
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Whether two elements of an output share an address: then the result would
// depend on who writes last. Exact for strides that nest, which is all that a
// layout of distinct elements needs.
bool overlaps(const attn_tensor& tensor, std::array<int64_t, 4> shape) {
  if (std::ranges::any_of(shape, [](int64_t n) { return n == 0; })) return false;
  std::array<int, 4> order = {0, 1, 2, 3};
  std::ranges::sort(order, {}, [&](int i) { return magnitude(tensor.stride[i]); });
  unsigned __int128 reach = 1;  // strides are anything: their products with sizes leave 64 bits
  for (int i : order) {
    if (shape[i] == 1) continue;
    if (magnitude(tensor.stride[i]) < reach) return true;
    reach += static_cast<unsigned __int128>(shape[i] - 1) * magnitude(tensor.stride[i]);
  }
  return false;
}

Refusal check_tensors(const attn_problem& p, const attn_tensors& t) {
  const bool queries = p.batch > 0 && p.heads_q > 0 && p.seq_q > 0;
  const bool keys = queries && p.seq_k > 0;
  const struct {
    const char* name;
    const void* data;
    bool needed;
    uintptr_t align;
  } pointers[] = {{"q", t.q.data, keys, 2},
                  {"k", t.k.data, keys, 2},
                  {"v", t.v.data, keys, 2},
                  {"o", t.o.data, queries, 2},
                  {"lse", t.lse.data, false, 4},
                  {"bias", t.bias.data, keys && p.bias_dtype != ATTN_NONE, p.bias_dtype == ATTN_F32 ? 4u : 2u},
                  {"mask", t.mask.data, keys && p.has_mask, 1},
                  {"key_lengths", t.key_lengths, queries && p.has_key_lengths, 8}};
  for (const auto& pointer : pointers) {
    if (pointer.needed && pointer.data == nullptr)
      return invalid(std::string(pointer.name) + " is a null pointer");
    if (reinterpret_cast<uintptr_t>(pointer.data) % pointer.align != 0) {
      return invalid(std::string(pointer.name) + " is not aligned to its elements");
    }
  }
  if (overlaps(t.o, {p.batch, p.heads_q, p.seq_q, p.dim_v}))
    return invalid("the strides of o make its elements overlap");
  if (t.lse.data != nullptr && overlaps(t.lse, {p.batch, p.heads_q, p.seq_q, 1})) {
    return invalid("the strides of lse make its elements overlap");
  }
  return {};
}

// 16-byte copies need aligned rows of whole 8-element chunks.
bool copies_by_16_bytes(const Strided& tensor, const int64_t (&shape)[3], int dim) {
  if (reinterpret_cast<uintptr_t>(tensor.data) % 16 != 0 || dim % 8 != 0 || tensor.stride[3] != 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (shape[i] > 1 && tensor.stride[i] % 8 != 0) return false;
  }
  return true;
}

// A size-1 dimension may carry any stride: it must not reach an address.
Strided strided(const attn_tensor& tensor, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  const int64_t shape[4] = {n0, n1, n2, n3};
  Strided result = {tensor.data, {}};
  for (int i = 0; i < 4; ++i) result.stride[i] = shape[i] > 1 ? tensor.stride[i] : i == 3 ? 1 : 0;
  return result;
}

}  // namespace

Refusal check_problem(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) {
  if (problem.size < sizeof(attn_problem))
    return invalid("attn_problem is smaller than this kernel's contract");
  if (tensors.size < sizeof(attn_tensors))
    return invalid("attn_tensors is smaller than this kernel's contract");
  if (env.size < sizeof(attn_env)) return invalid("attn_env is smaller than this kernel's contract");
  if (Refusal refusal = check_sizes(problem)) return refusal;
  if (Refusal refusal = check_switches(problem)) return refusal;
  if (Refusal refusal = check_tensors(problem, tensors)) return refusal;
  if (env.backend != kBackend) return invalid("env.backend is not the back end this kernel was compiled for");
  if (env.sm_count <= 0) return invalid(name_value("env.sm_count", env.sm_count) + " is not positive");
  if (env.compute_capability < 80) {
    return {ATTN_UNSUPPORTED, "needs compute capability 8.0 or later (mma.m16n8k16, cp.async)"};
  }
  return {};
}

ForwardParams make_params(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                          int packed) {
  ForwardParams p = {};
  const attn_problem& a = problem;
  p.q = strided(tensors.q, a.batch, a.heads_q, a.seq_q, a.dim_qk);
  p.k = strided(tensors.k, a.batch, a.heads_kv, a.seq_k, a.dim_qk);
  p.v = strided(tensors.v, a.batch, a.heads_kv, a.seq_k, a.dim_v);
  p.o = strided(tensors.o, a.batch, a.heads_q, a.seq_q, a.dim_v);
  p.lse = strided(tensors.lse, a.batch, a.heads_q, a.seq_q, 1);
  p.bias = strided(tensors.bias, a.batch, a.heads_q, a.seq_q, a.seq_k);
  p.mask = strided(tensors.mask, a.batch, a.heads_q, a.seq_q, a.seq_k);
  p.key_lengths = problem.has_key_lengths ? tensors.key_lengths : nullptr;
  p.batch = problem.batch;
  p.heads_q = problem.heads_q;
  p.seq_q = problem.seq_q;
  p.seq_k = problem.seq_k;
  p.dim_qk = static_cast<int32_t>(problem.dim_qk);
  p.dim_v = static_cast<int32_t>(problem.dim_v);
  p.group = problem.heads_kv == 0 ? 1 : static_cast<int32_t>(problem.heads_q / problem.heads_kv);
  p.packed = packed;
  p.left = problem.window_left < 0 ? kFar : std::min(problem.window_left, kFar);
  p.right = problem.window_right < 0 ? kFar : std::min(problem.window_right, kFar);
  if (problem.causal) p.right = 0;
  p.bottom_right = problem.align == ATTN_BOTTOM_RIGHT;
  p.has_mask = problem.has_mask != 0;
  p.bias_dtype = problem.bias_dtype;

  const int64_t q_shape[3] = {problem.batch, problem.heads_q, problem.seq_q};
  const int64_t k_shape[3] = {problem.batch, problem.heads_kv, problem.seq_k};
  p.async_q = copies_by_16_bytes(p.q, q_shape, p.dim_qk);
  p.async_k = copies_by_16_bytes(p.k, k_shape, p.dim_qk);
  p.async_v = copies_by_16_bytes(p.v, k_shape, p.dim_v);
  p.paired_o = reinterpret_cast<uintptr_t>(p.o.data) % 4 == 0 && p.dim_v % 2 == 0 && p.o.stride[3] == 1 &&
               p.o.stride[0] % 2 == 0 && p.o.stride[1] % 2 == 0 && p.o.stride[2] % 2 == 0;

  // sigma must be a normal number: a hidden score times 0 would be NaN.
  const float sigma = std::fabs(problem.scale) * kLog2e;
  const bool fused = problem.softcap == 0 && problem.bias_dtype == ATTN_NONE && std::isnormal(sigma);
  p.mode = fused ? ScoreMode::kFused : ScoreMode::kGeneral;
  p.sign = problem.scale < 0 ? -1.0f : 1.0f;
  p.sigma = fused ? sigma : 1.0f;
  p.scale = problem.scale;
  p.softcap = problem.softcap;
  p.probe = probe_of(&env);
  return p;
}

std::string copy_path(const ForwardParams& params) {
  std::string slow;
  if (!params.async_q) slow += 'q';
  if (!params.async_k) slow += 'k';
  if (!params.async_v) slow += 'v';
  return slow.empty() ? "cp.async" : "elementwise(" + slow + ")";
}

void describe_arithmetic(const ForwardParams& params, attn_plan* plan) {
  plan->accumulator = ATTN_ACC_TENSOR;
  plan->exp_class = ATTN_EXP_EX2_APPROX;
  plan->log_class = ATTN_LOG_LG2_APPROX;
  plan->rcp_class = ATTN_RCP_APPROX;
  plan->tanh_class = ATTN_TANH_TANHF;
  plan->scale_mode = params.mode == ScoreMode::kFused ? ATTN_SCALE_FUSED : ATTN_SCALE_SEPARATE;
  plan->p_format = ATTN_FORMAT_OF_INPUT;
  plan->partial_format = ATTN_FORMAT_F32;
  plan->flush_to_zero = 1;
  plan->isolates_masked_nan = 0;
  plan->deterministic = 1;
  plan->workspace_align = 16;
}

attn_status refuse(const Refusal& refusal, char* reason, uint64_t reason_size) {
  if (reason != nullptr && reason_size > 0) {
    const size_t n = std::min<size_t>(refusal.reason.size(), reason_size - 1);
    std::memcpy(reason, refusal.reason.data(), n);
    reason[n] = '\0';
  }
  return refusal.status;
}

int64_t product_within(int64_t a, int64_t b, int64_t c, int64_t limit) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product)) return -1;
  return product > limit ? -1 : product;
}

}  // namespace attn
