// A plug-in of the first contract (first/kernels/attention.h, unchanged since then), in
// the style of that time: it knows only the struct sizes of its own contract.
#include <cstdio>

#include "tests/fuzz/fakes/abi/forward.h"

static_assert(sizeof(attn_problem) == 120 && sizeof(attn_plan) == 184 && sizeof(attn_kernel) == 88,
              "this is to be compiled with the first contract");

namespace {

bool is_size(int64_t n) { return n >= 0 && n <= int64_t{1} << 40; }

const char* nonsense(const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  if (p.size < sizeof p || t.size < sizeof t || env.size < sizeof env) return "a struct of another contract";
  if (env.backend != ATTN_CPU || env.variant != 0) return "another back end, or a variant";
  if (p.dtype != ATTN_F16 && p.dtype != ATTN_BF16) return "dtype is neither f16 nor bf16";
  if (!is_size(p.batch) || !is_size(p.heads_q) || !is_size(p.heads_kv) || !is_size(p.seq_q) ||
      !is_size(p.seq_k) || !is_size(p.num_splits))
    return "a size outside 0..2^40";
  if (p.dim_qk < 1 || p.dim_qk > 256 || p.dim_v < 1 || p.dim_v > 256) return "a head dimension outside 1..256";
  if (p.heads_kv == 0 ? p.heads_q != 0 : p.heads_q % p.heads_kv != 0) return "heads_kv does not divide heads_q";
  if (!std::isfinite(p.scale) || !std::isfinite(p.softcap) || p.softcap < 0) return "scale or softcap";
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT) return "align is not known";
  if (p.bias_dtype < ATTN_NONE || p.bias_dtype > ATTN_F32) return "bias_dtype is not known";
  if (static_cast<double>(p.batch) * p.heads_q * p.seq_q > 1e6) return "more rows than it has time for";
  const bool queries = p.batch > 0 && p.heads_q > 0 && p.seq_q > 0, keys = queries && p.seq_k > 0;
  if ((queries && !t.o.data) || (keys && (!t.q.data || !t.k.data || !t.v.data))) return "a null pointer";
  return forward::unsupported(p);
}

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t reason_size) {
  if (const char* why = nonsense(*problem, *tensors, *env)) {
    if (reason_size > 0) std::snprintf(reason, reason_size, "%s", why);
    return ATTN_UNSUPPORTED;
  }
  *plan = {};
  plan->size = sizeof *plan;
  plan->tile_q = plan->tile_k = 64;
  plan->num_splits = 1;
  plan->split_tiles = (problem->seq_k + 63) / 64;
  plan->rescales = 1;
  plan->accumulator = ATTN_ACC_FFMA;
  plan->exp_class = ATTN_EXP_EXPF;
  plan->log_class = ATTN_LOG_LOGF;
  plan->rcp_class = ATTN_RCP_EXACT;
  plan->scale_mode = ATTN_SCALE_SEPARATE;
  plan->p_format = ATTN_FORMAT_F32;
  plan->deterministic = 1;
  plan->workspace_align = 1;
  return ATTN_OK;
}

attn_tensor tamed(attn_tensor x, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  const int64_t size[] = {n0, n1, n2, n3};
  for (int i = 0; i < 4; ++i) x.stride[i] = size[i] <= 1 ? 0 : x.stride[i];
  return x;
}

attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                const attn_env* env) {
  const attn_problem& p = *problem;
  if (plan->size < sizeof *plan || nonsense(p, *tensors, *env)) return ATTN_INVALID;
  attn_tensors t = *tensors;
  t.q = tamed(t.q, p.batch, p.heads_q, p.seq_q, p.dim_qk);
  t.k = tamed(t.k, p.batch, p.heads_kv, p.seq_k, p.dim_qk);
  t.v = tamed(t.v, p.batch, p.heads_kv, p.seq_k, p.dim_v);
  t.o = tamed(t.o, p.batch, p.heads_q, p.seq_q, p.dim_v);
  t.lse = tamed(t.lse, p.batch, p.heads_q, p.seq_q, 1);
  forward::attend(p, t);
  return ATTN_OK;
}

const attn_kernel kernel = [] {
  attn_kernel k = {};
  k.size = sizeof k;
  k.abi = ATTN_ABI;
  k.name = "first";
  k.description = "a plug-in of the first contract";
  k.backend = ATTN_CPU;
  k.plan = plan;
  k.run = run;
  return k;
}();

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kernel : nullptr; }
