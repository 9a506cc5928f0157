// What makes the kernel a plug-in: which problems it takes, how it computes, and
// the descriptor that attnfuzz looks for.
#include <math.h>
#include <stdio.h>

#include "kernels/identity.h"
#include "launch.cuh"

namespace {

constexpr int64_t kMaxBlocks = 2147483647;
constexpr int64_t kMaxSize = int64_t{1} << 40;
constexpr int64_t kFar = int64_t{1} << 60;  // an unbounded side of a window

struct Refusal {
  attn_status status = ATTN_OK;
  const char* reason = nullptr;
};

bool is_size(int64_t n) { return n >= 0 && n <= kMaxSize; }

// What no kernel could do.
Refusal check_sense(const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  if (p.size < sizeof p || t.size < sizeof t || env.size < sizeof env)
    return {ATTN_INVALID, "a struct of another contract: rebuild with one kernels/attention.h"};
  if (env.backend != attn::kBackend) return {ATTN_INVALID, "compiled for the other back end"};
  if (env.variant != 0) return {ATTN_INVALID, "there are no variants"};
  if (p.dtype != ATTN_F16 && p.dtype != ATTN_BF16) return {ATTN_INVALID, "dtype is neither f16 nor bf16"};
  if (!is_size(p.batch) || !is_size(p.heads_q) || !is_size(p.heads_kv) || !is_size(p.seq_q) ||
      !is_size(p.seq_k) || !is_size(p.num_splits))
    return {ATTN_INVALID, "a size outside 0..2^40"};
  if (p.dim_qk < 1 || p.dim_qk > 256 || p.dim_v < 1 || p.dim_v > 256)
    return {ATTN_INVALID, "a head dimension outside 1..256"};
  if (p.heads_kv == 0 ? p.heads_q != 0 : p.heads_q % p.heads_kv != 0)
    return {ATTN_INVALID, "heads_kv does not divide heads_q"};
  if (!isfinite(p.scale) || !isfinite(p.softcap) || p.softcap < 0)
    return {ATTN_INVALID, "scale or softcap is not a number one can use"};
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT) return {ATTN_INVALID, "align is not known"};
  if (p.bias_dtype < ATTN_NONE || p.bias_dtype > ATTN_F32) return {ATTN_INVALID, "bias_dtype is not known"};
  const bool queries = p.batch > 0 && p.heads_q > 0 && p.seq_q > 0, keys = queries && p.seq_k > 0;
  if ((queries && !t.o.data) || (keys && (!t.q.data || !t.k.data || !t.v.data)) ||
      (keys && p.has_mask && !t.mask.data) || (keys && p.bias_dtype != ATTN_NONE && !t.bias.data) ||
      (queries && p.has_key_lengths && !t.key_lengths))
    return {ATTN_INVALID, "a tensor that the problem needs is a null pointer"};
  return {};
}

// What this one does not do.
Refusal check_support(const attn_problem& p, int64_t blocks) {
  if (p.dim_qk > kMaxDim || p.dim_v > kMaxDim) return {ATTN_UNSUPPORTED, "head dimensions above 64"};
  if (p.bias_dtype != ATTN_NONE) return {ATTN_UNSUPPORTED, "a bias"};
  if (p.softcap > 0) return {ATTN_UNSUPPORTED, "a soft cap"};
  if (blocks < 0) return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks"};
  return {};
}

int64_t tiles(int64_t n) { return (n + kTile - 1) / kTile; }

// -1: more than a grid has.
int64_t blocks_of(const attn_problem& p) {
  int64_t blocks = 0;
  if (__builtin_mul_overflow(tiles(p.seq_q), p.heads_q, &blocks)) return -1;
  if (__builtin_mul_overflow(blocks, p.batch, &blocks)) return -1;
  return blocks > kMaxBlocks ? -1 : blocks;
}

Refusal check(const attn_problem& p, const attn_tensors& t, const attn_env& env) {
  const Refusal nonsense = check_sense(p, t, env);
  return nonsense.status != ATTN_OK ? nonsense : check_support(p, blocks_of(p));
}

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t reason_size) {
  const Refusal refusal = check(*problem, *tensors, *env);
  if (refusal.status != ATTN_OK) {
    if (reason_size > 0) snprintf(reason, reason_size, "not supported: %s", refusal.reason);
    return refusal.status;
  }
  *plan = {};
  plan->size = sizeof *plan;
  snprintf(plan->path, sizeof plan->path, "a thread a row, 64x64");
  plan->tile_q = plan->tile_k = kTile;
  plan->num_splits = 1;
  plan->split_tiles = tiles(problem->seq_k);
  plan->rescales = plan->split_tiles + 1;  // each tile once when it is taken in, and then for each that follows
  plan->accumulator = ATTN_ACC_FFMA;
  plan->exp_class = ATTN_EXP_FAST_EXPF;
  plan->log_class = ATTN_LOG_LOGF;
  plan->rcp_class = ATTN_RCP_EXACT;
  plan->scale_mode = ATTN_SCALE_SEPARATE;
  plan->p_format = ATTN_FORMAT_F32;
  plan->flush_to_zero = 1;  // of __expf
  plan->deterministic = 1;
  plan->workspace_align = 1;
  return ATTN_OK;
}

// A dimension of one element may carry any stride: it is not to reach an address.
Strides strides(const attn_tensor& t, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  return {n0 > 1 ? t.stride[0] : 0, n1 > 1 ? t.stride[1] : 0, n2 > 1 ? t.stride[2] : 0,
          n3 > 1 ? t.stride[3] : 0};
}

attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan*,
                const attn_env* env) {
  const attn_problem& p = *problem;
  const attn_tensors& t = *tensors;
  if (const Refusal refusal = check(p, t, *env); refusal.status != ATTN_OK) return refusal.status;
  const int64_t blocks = blocks_of(p);
  if (blocks == 0) return ATTN_OK;

  AttentionArgs a = {};
  a.q = t.q.data;
  a.k = t.k.data;
  a.v = t.v.data;
  a.o = t.o.data;
  a.lse = static_cast<float*>(t.lse.data);
  a.mask = p.has_mask ? static_cast<const unsigned char*>(t.mask.data) : nullptr;
  a.key_lengths = p.has_key_lengths ? t.key_lengths : nullptr;
  a.q_strides = strides(t.q, p.batch, p.heads_q, p.seq_q, p.dim_qk);
  a.k_strides = strides(t.k, p.batch, p.heads_kv, p.seq_k, p.dim_qk);
  a.v_strides = strides(t.v, p.batch, p.heads_kv, p.seq_k, p.dim_v);
  a.o_strides = strides(t.o, p.batch, p.heads_q, p.seq_q, p.dim_v);
  a.lse_strides = strides(t.lse, p.batch, p.heads_q, p.seq_q, 1);
  a.mask_strides = strides(t.mask, p.batch, p.heads_q, p.seq_q, p.seq_k);
  a.heads_q = static_cast<int>(p.heads_q);
  a.heads_kv = static_cast<int>(p.heads_kv);
  a.tiles_q = static_cast<int>(tiles(p.seq_q));
  a.seq_q = p.seq_q;
  a.seq_k = p.seq_k;
  a.dim_qk = static_cast<int>(p.dim_qk);
  a.dim_v = static_cast<int>(p.dim_v);
  a.scale = p.scale;
  a.left = p.window_left < 0 || p.window_left > kFar ? kFar : p.window_left;
  a.right = p.causal ? 0 : p.window_right < 0 || p.window_right > kFar ? kFar : p.window_right;
  a.bottom_right = p.align == ATTN_BOTTOM_RIGHT;
  return launch_attention(p.dtype == ATTN_BF16, a, static_cast<unsigned>(blocks), env);
}

const attn_kernel kernel = {
    .size = sizeof(attn_kernel),
    .abi = ATTN_ABI,
    .name = "afternoon",
    .description = "one-pass attention in plain CUDA, a thread a query row",
    .backend = attn::kBackend,
    .variant_count = 0,
    .variants = nullptr,
    .build = &attn_build_identity,
    .plan = plan,
    .run = run,
    .partials = nullptr,
    .partial = nullptr,
    .reduce = nullptr,
};

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kernel : nullptr; }
