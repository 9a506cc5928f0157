// Split-K: the keys are divided among blocks and the parts merged by their LSE.
// Plan, run, stages, descriptor.
#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/forward/checks.h"
#include "kernels/identity.h"
#include "kernels/splitk/launch.h"

namespace attn {
namespace {

constexpr int64_t kMaxSplits = 65535;

// Everything that plan() decides, made anew from the same arguments by each stage:
// decide() writes all of it, or refuses.
struct Decision {
  size_t shape;
  int packed;
  int64_t splits, split_tiles;
  int64_t q_tiles, rows;
  uint64_t lse_offset, workspace;
};

// The fewest splits whose last wave of blocks is nearly as full as the best
// choice's: with `blocks` blocks a split, waves = blocks * splits / SMs, and a
// wave costs the same whether full or not. More blocks than 80 % of the SMs, or
// few KV tiles, and splitting only adds work.
int64_t choose_splits(int64_t blocks, int64_t kv_tiles, int64_t sm_count) {
  sm_count = std::max<int64_t>(sm_count, 1);
  if (blocks * 5 >= sm_count * 4 || kv_tiles <= 4) return 1;
  const int64_t most = std::min({int64_t{128}, sm_count, kv_tiles});
  const auto efficiency = [&](int64_t splits) {
    const double waves = static_cast<double>(blocks * splits) / sm_count;
    return waves / static_cast<double>(ceil_div(blocks * splits, sm_count));
  };
  double best = 0;
  for (int64_t splits = 1; splits <= most; ++splits) best = std::max(best, efficiency(splits));
  for (int64_t splits = 1; splits <= most; ++splits) {
    if (efficiency(splits) >= 0.85 * best) return splits;
  }
  return 1;
}

Refusal decide(const attn_problem& problem, const attn_env& env, Decision* d) {
  if (Refusal refusal = check_device(env)) return refusal;
  if (Refusal refusal = choose_shape(kSplitkShapes, problem, env, &d->shape)) return refusal;
  const ShapeSpec& shape = kSplitkShapes[d->shape];

  // Query heads of one KV head share a tile when one head alone would leave most of it empty.
  const int64_t group = problem.heads_kv == 0 ? 1 : problem.heads_q / problem.heads_kv;
  d->packed = group > 1 && problem.seq_q * 2 <= shape.tile_q ? static_cast<int>(group) : 1;

  const Refusal too_many = {ATTN_UNSUPPORTED,
                            "more than 2^31 - 1 blocks: batch * heads_q * query tiles * splits is too large"};
  const int64_t query_rows = product_within(problem.seq_q, d->packed, 1, kFar);
  if (query_rows < 0) return too_many;
  d->q_tiles = ceil_div(query_rows, shape.tile_q);
  const int64_t blocks = product_within(d->q_tiles, problem.heads_q / d->packed, problem.batch, kMaxBlocks);
  if (blocks < 0) return too_many;
  const int64_t kv_tiles = ceil_div(problem.seq_k, shape.tile_k);
  if (problem.num_splits > kMaxSplits) {
    return {ATTN_UNSUPPORTED, "num_splits = " + std::to_string(problem.num_splits) + " is more than 65535"};
  }
  d->splits = problem.num_splits > 0 ? problem.num_splits : choose_splits(blocks, kv_tiles, env.sm_count);
  d->split_tiles = std::max<int64_t>(ceil_div(kv_tiles, d->splits), 1);
  if (product_within(blocks, d->splits, 1, kMaxBlocks) < 0) return too_many;

  d->rows = product_within(problem.batch, problem.heads_q, problem.seq_q, kMaxBlocks * kReduceWarps);
  const int64_t o_bytes = product_within(d->rows, d->splits, problem.dim_v * 4, int64_t{1} << 46);
  if (d->rows < 0 || o_bytes < 0)
    return {ATTN_UNSUPPORTED, "the partial results would not fit any device's memory"};
  d->lse_offset = ceil_div(o_bytes, 16) * 16;
  d->workspace = d->lse_offset + d->rows * d->splits * 4;
  return {};
}

Refusal plan_splits(const Call& call, attn_plan* plan) {
  Decision d;
  if (Refusal refusal = decide(call.problem, call.env, &d)) return refusal;
  const ShapeSpec& shape = kSplitkShapes[d.shape];
  const ForwardParams params = make_params(call.problem, call.tensors, call.env, d.packed);
  describe_arithmetic(params, plan);
  std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d%s%s %s", shape.tile_q, shape.tile_k, shape.dim,
                d.packed > 1 ? " packed" : "", d.splits > 1 ? " split" : "", copy_path(params).c_str());
  plan->tile_q = shape.tile_q;
  plan->tile_k = shape.tile_k;
  plan->num_splits = d.splits;
  plan->split_tiles = d.split_tiles;
  plan->rescales = d.split_tiles;
  plan->merges = d.splits > 1 ? d.splits : 0;
  plan->merge_rule = ATTN_MERGE_BY_WEIGHT;
  plan->workspace_bytes = d.workspace;
  return {};
}

SplitParams split_params(const Decision& d, const attn_tensors& tensors) {
  std::byte* workspace = static_cast<std::byte*>(tensors.workspace);
  return {reinterpret_cast<float*>(workspace), reinterpret_cast<float*>(workspace + d.lse_offset), d.splits,
          d.split_tiles, d.rows};
}

attn_status launch_partial(const attn_problem& problem, const attn_tensors& tensors, const Decision& d,
                           bool direct, const attn_env* env) {
  const ForwardParams params = make_params(problem, tensors, *env, d.packed);
  const SplitParams split = split_params(d, tensors);
  return problem.dtype == ATTN_F16 ? splitk_launch_partial<F16>(d.shape, params, split, direct, env)
                                   : splitk_launch_partial<BF16>(d.shape, params, split, direct, env);
}

attn_status launch_reduce(const attn_problem& problem, const attn_tensors& tensors, const Decision& d,
                          const attn_env* env) {
  const ForwardParams params = make_params(problem, tensors, *env, d.packed);
  const SplitParams split = split_params(d, tensors);
  return problem.dtype == ATTN_F16 ? splitk_launch_reduce<F16>(params, split, env)
                                   : splitk_launch_reduce<BF16>(params, split, env);
}

enum class Work { kAll, kPartial, kReduce };

attn_status run_stages(Work work, const Call& call) {
  const auto& [problem, tensors, env] = call;
  Decision d;
  if (Refusal refusal = decide(problem, env, &d)) return refusal.status;
  if (d.rows == 0) return ATTN_OK;
  const bool direct = work == Work::kAll && d.splits == 1;
  if (!direct && (tensors.workspace == nullptr || tensors.workspace_bytes < d.workspace ||
                  reinterpret_cast<uintptr_t>(tensors.workspace) % 16 != 0)) {
    return ATTN_INVALID;
  }
  if (work != Work::kReduce) {
    const attn_status status = launch_partial(problem, tensors, d, direct, &env);
    if (status != ATTN_OK || direct) return status;
  }
  return work == Work::kPartial ? ATTN_OK : launch_reduce(problem, tensors, d, &env);
}

attn_partials place_partials(const attn_problem& problem, const attn_plan& plan) {
  const int64_t rows = problem.batch * problem.heads_q * problem.seq_q;
  attn_partials partials = {};
  partials.size = sizeof partials;
  partials.num_splits = plan.num_splits;
  partials.o_offset = 0;
  partials.lse_offset = plan.workspace_bytes - rows * plan.num_splits * sizeof(float);
  const int64_t stride[4] = {rows, problem.heads_q * problem.seq_q, problem.seq_q, 1};
  for (int i = 0; i < 4; ++i) {
    partials.lse_stride[i] = stride[i];
    partials.o_stride[i] = stride[i] * problem.dim_v;
  }
  return partials;
}

struct SplitK {
  static constexpr const char* kName = "splitk";
  static constexpr const char* kDescription =
      "FlashAttention forward over splits of the keys, GQA heads packed, merged by LSE";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr std::array kVariants = {"small", "wide"};
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan) { return plan_splits(call, plan); }
  static attn_status run(const Call& call, const attn_plan&) { return run_stages(Work::kAll, call); }
  static attn_status partial(const Call& call, const attn_plan&) { return run_stages(Work::kPartial, call); }
  static attn_status reduce(const Call& call, const attn_plan&) { return run_stages(Work::kReduce, call); }
  static attn_partials partials(const attn_problem& p, const attn_plan& plan) {
    return place_partials(p, plan);
  }
};

const attn_kernel kSplitk = plug_in<SplitK>();

}  // namespace
}  // namespace attn

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::kSplitk : nullptr; }
