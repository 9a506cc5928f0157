#include <algorithm>
#include <cmath>

#include "kernels/forward/checks.h"
#include "kernels/primitives/launch.h"

namespace attn {
namespace {

constexpr double kLog2eInFull = 1.4426950408889634;

}  // namespace

Refusal check_device(const attn_env& env) {
  if (env.compute_capability >= 80) return {};
  return {ATTN_UNSUPPORTED, "needs compute capability 8.0 or later (mma.m16n8k16, cp.async)"};
}

Refusal check_pages(const attn_problem& problem) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (problem.page_size == 0 || std::max(problem.page_size, problem.seq_k) < kMost) return {};
  return {ATTN_UNSUPPORTED, "2^31 keys or more in pages, or in one page"};
}

ForwardParams make_params(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env,
                          int packed) {
  ForwardParams p = {};
  const attn_problem& a = problem;
  const Rows q = rows_of_queries(a), k = rows_of_keys(a);
  p.q = strided(tensors.q, q.entries, a.heads_q, q.count, a.dim_qk);
  p.k = strided(tensors.k, k.entries, a.heads_kv, k.count, a.dim_qk);
  p.v = strided(tensors.v, k.entries, a.heads_kv, k.count, a.dim_v);
  p.o = strided(tensors.o, q.entries, a.heads_q, q.count, a.dim_v);
  p.lse = strided(tensors.lse, q.entries, a.heads_q, q.count, 1);
  p.bias = strided(tensors.bias, a.batch, a.heads_q, a.seq_q, a.seq_k);
  p.mask = strided(tensors.mask, a.batch, a.heads_q, a.seq_q, a.seq_k);
  if (problem.has_sink) p.sinks = {tensors.sink.data, a.heads_q > 1 ? tensors.sink.stride[1] : 0, problem.sink_dtype};
  if (problem.has_alibi) {
    const attn_tensor slopes = strided(tensors.slopes, a.batch, a.heads_q, 1, 1);
    p.slopes = {static_cast<const float*>(slopes.data), slopes.stride[0], slopes.stride[1]};
  }
  p.key_lengths = problem.has_key_lengths ? tensors.key_lengths : nullptr;
  if ((problem.ragged & ATTN_RAGGED_QUERIES) != 0) p.ragged.cu_q = tensors.cu_q;
  if ((problem.ragged & ATTN_RAGGED_KEYS) != 0) p.ragged.cu_k = tensors.cu_k;
  p.ragged.narrow = problem.index_dtype == ATTN_INDEX_32;
  if (problem.page_size != 0) {
    const attn_tensor table = strided(tensors.block_table, a.batch, 1, 1, a.pages_per_seq);
    p.paged = {table.data, table.stride[0], static_cast<uint32_t>(problem.page_size)};
  }
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

  const int64_t q_shape[3] = {q.entries, problem.heads_q, q.count};
  const int64_t k_shape[3] = {k.entries, problem.heads_kv, k.count};
  p.async_q = copies_by_16_bytes(p.q, q_shape, p.dim_qk);
  p.async_k = copies_by_16_bytes(p.k, k_shape, p.dim_qk);
  p.async_v = copies_by_16_bytes(p.v, k_shape, p.dim_v);
  p.paired_o = reinterpret_cast<uintptr_t>(p.o.data) % 4 == 0 && p.dim_v % 2 == 0 && p.o.stride[3] == 1 &&
               p.o.stride[0] % 2 == 0 && p.o.stride[1] % 2 == 0 && p.o.stride[2] % 2 == 0;

  if (problem.kv_dtype != 0) {
    p.narrow = {problem.kv_dtype, strided(tensors.k_scale, a.batch, a.heads_kv, a.seq_k, 1),
                strided(tensors.v_scale, a.batch, a.heads_kv, a.seq_k, 1)};
    // Eight codes can be read at once under the same conditions, but their addresses need only be multiples of
    // 8.
    const auto by_eight = [&](Strided codes, int dim) {
      codes.data = reinterpret_cast<void*>(2 * (reinterpret_cast<uintptr_t>(codes.data) % 8));
      return copies_by_16_bytes(codes, k_shape, dim);
    };
    p.async_k = by_eight(p.k, p.dim_qk);
    p.async_v = by_eight(p.v, p.dim_v);
  }

  if (problem.key_step != 0) p.blocks = {problem.key_step, problem.key_offset};

  // sigma must be a normal number: a hidden score is -inf, and -inf times 0 would be NaN.
  const float sigma = std::fabs(problem.scale) * kLog2e;
  const bool fused = problem.softcap == 0 && problem.bias_dtype == ATTN_NONE && !problem.has_alibi &&
                     std::isnormal(sigma);
  p.mode = fused ? ScoreMode::kFused : ScoreMode::kGeneral;
  p.sign = problem.scale < 0 ? -1.0f : 1.0f;
  p.sigma = fused ? sigma : 1.0f;
  p.scale = problem.scale;
  p.softcap = problem.softcap;
  p.probe = probe_of(&env);
  return p;
}

bool make_score_terms(const attn_problem& problem, const ForwardParams& params, ScoreTerms* terms) {
  if (params.has_mask) return false;
  *terms = {};
  ScoreTerms& t = *terms;
  t.bias = params.bias;
  t.bias_dtype = problem.bias_dtype;
  t.seq_q = static_cast<int32_t>(problem.seq_q);
  t.seq_k = static_cast<int32_t>(problem.seq_k);
  const int64_t shape[3] = {problem.batch, problem.heads_q, problem.seq_q};
  t.pairs = (t.bias_dtype == ATTN_F16 || t.bias_dtype == ATTN_BF16) && t.bias.stride[3] == 1 &&
            reinterpret_cast<uintptr_t>(t.bias.data) % 4 == 0;
  for (int i = 0; i < 3; ++i) t.pairs = t.pairs && (shape[i] <= 1 || t.bias.stride[i] % 2 == 0);
  t.chunks = t.pairs && copies_by_16_bytes(t.bias, shape, 8);
  t.capped = problem.softcap > 0;
  t.scale = problem.scale;
  if (!t.capped) return true;
  const double cap = problem.softcap;
  t.inner = static_cast<float>(problem.scale / cap);
  t.outer = static_cast<float>(t.bias_dtype == ATTN_NONE ? cap * kLog2eInFull : cap);
  t.scale = 1;
  return (std::isnormal(t.inner) || problem.scale == 0) && std::isnormal(t.outer);
}

std::string copy_path(const ForwardParams& params) {
  std::string slow;
  if (!params.async_q) slow += 'q';
  if (!params.async_k) slow += 'k';
  if (!params.async_v) slow += 'v';
  const bool ragged = params.ragged.cu_q != nullptr || params.ragged.cu_k != nullptr;
  const bool paged = params.paged.table != nullptr;
  const bool steps = params.blocks.step != 1 || params.blocks.offset != 0;
  return std::string(ragged ? "ragged " : "") + (paged ? "paged " : "") +
         (params.narrow.dtype != 0 ? "narrow " : "") + (steps ? "steps " : "") +
         (slow.empty() ? "cp.async" : "elementwise(" + slow + ")");
}

void describe_arithmetic(const ForwardParams& params, attn_plan* plan) {
  plan->accumulator = ATTN_ACC_TENSOR;
  plan->exp_class = ATTN_EXP_EX2_APPROX;
  plan->log_class = ATTN_LOG_LG2_APPROX;
  plan->rcp_class = ATTN_RCP_APPROX;
  plan->tanh_class = ATTN_TANH_TANHF;
  plan->scale_mode = params.mode == ScoreMode::kFused ? ATTN_SCALE_FUSED : ATTN_SCALE_SEPARATE;
  plan->p_format = ATTN_FORMAT_OF_INPUT;
  plan->p_order = ATTN_P_UNNORMALISED;
  plan->partial_format = ATTN_FORMAT_F32;
  plan->flush_to_zero = 1;
  plan->isolates_masked_nan = 0;
  plan->deterministic = 1;
  plan->workspace_align = 16;
  plan->key_order = ATTN_KEYS_ASCENDING;
  plan->max_rule = ATTN_MAX_RUNNING;
  plan->sum_lanes = 4;  // four lanes of a quad add up a row, see online_softmax.h
  plan->dot_order = ATTN_DOT_ASCENDING;
  plan->score_rule = ATTN_SCORE_BY_STEPS;
  plan->tanh_rule = ATTN_TANH_IN_TWO;
  plan->rescale_rule = ATTN_RESCALE_BY_FMA;
  plan->tile_order = ATTN_TILE_ASCENDING;
  plan->sum_run = 2;
  plan->norm_rule = ATTN_NORM_BY_RECIPROCAL;
  plan->lse_rule = ATTN_LSE_BY_FMA;
}

}  // namespace attn
