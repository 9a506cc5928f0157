// Split-K: the keys are divided among blocks, and the partial results are merged by their LSE. This file has
// plan(), run() and the stages, for a library with the general path, the decode path of hopper/, or both.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>

#include "kernels/forward/checks.h"
#include "kernels/identity.h"
#include "kernels/splitk/hopper/hopper.h"
#include "kernels/splitk/launch.h"
#include "kernels/splitk/wide/kernel.h"

namespace attn {

// The paths of Split-K that a library has.
struct SplitkPaths {
  bool decode;   // hopper/, for the problems that it takes
  bool general;  // the path for sm_80 and all other problems; a library without it refuses them
  bool pretend;  // for the executor: decode assumes sm_90a and variant 0, whatever env says
};

namespace splitk {

inline constexpr int64_t kMaxSplits = 65535;
// Heads with more columns take the path of wide/.
inline constexpr int64_t kUsualDim = 256;

// Everything that plan() decides. Each stage calls decide() again with the same arguments. decide() fills in
// all members or refuses.
struct Decision {
  int decode;          // hopper/'s choice, or -1
  bool scored;         // for hopper/: the mode is ScoreMode::kGeneral
  int64_t own_splits;  // for hopper/: the number of splits that it would choose
  bool wide;           // if decode is -1: heads have more than 256 columns, so wide/ takes the problem
  size_t shape;        // if neither hopper/ nor wide/: the index into kSplitkShapes
  int64_t tile_q, tile_k;
  int dim;
  int packed;
  int64_t splits, split_tiles;
  int64_t q_tiles, rows;
  uint64_t lse_offset, workspace;
};

// The fewest splits that fill the waves of blocks nearly as well as the best number of splits. With
// `blocks` blocks per split there are blocks * splits / SMs waves, and a partly filled last wave costs as much
// as a full one. If the blocks of one split fill 80 % of the SMs, or there are few KV tiles, splitting only
// adds work.
inline int64_t choose_splits(int64_t blocks, int64_t kv_tiles, int64_t sm_count) {
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

// Decides for the path of wide heads, or refuses the problem.
inline Refusal decide_wide(const Call& call, Decision* d) {
  const attn_problem& problem = call.problem;
  if (problem.kv_dtype != 0)
    return {ATTN_UNSUPPORTED, "K and V of 8 bits in heads of more than " + std::to_string(kUsualDim) + " columns"};
  if (problem.dim_qk > WideSpec::kDimQk || problem.dim_v > WideSpec::kDimV) {
    return {ATTN_UNSUPPORTED, "compiled for head dimensions up to " + std::to_string(WideSpec::kDimQk) +
                                  " of Q and K and " + std::to_string(WideSpec::kDimV) + " of V, not " +
                                  std::to_string(problem.dim_qk) + " and " + std::to_string(problem.dim_v)};
  }
  // Wide heads have one shape in all variants. The other paths decide which variants exist.
  const int last_variant = std::ranges::max(kSplitkShapes, {}, &ShapeSpec::variant).variant;
  if (call.env.variant < 0 || call.env.variant > last_variant) {
    return {ATTN_INVALID, "variant " + std::to_string(call.env.variant) + " is not one of 0.." +
                              std::to_string(last_variant)};
  }
  if (static_cast<int64_t>(WideSpec::shared()) > call.env.shared_memory_limit) {
    return {ATTN_UNSUPPORTED, "needs " + std::to_string(WideSpec::shared()) +
                                  " bytes of shared memory a block; the limit is " +
                                  std::to_string(call.env.shared_memory_limit)};
  }
  d->wide = true;
  d->tile_q = WideSpec::kTileQ;
  d->tile_k = WideSpec::kTileK;
  d->dim = WideSpec::kDimQk;
  return {};
}

// Decides the path, its tiles, and how many query heads share a tile.
template <SplitkPaths kPaths>
Refusal decide_path(const Call& call, Decision* d) {
  const attn_problem& problem = call.problem;
  const int64_t group = problem.heads_kv == 0 ? 1 : problem.heads_q / problem.heads_kv;
  d->decode = -1;
  d->scored = d->wide = false;
  if constexpr (kPaths.decode) {
    attn_env env = call.env;
    if (kPaths.pretend) env.compute_capability = 90, env.variant = 0;
    d->decode = decode_choice(problem, call.tensors, env);
    if (d->decode >= 0) {
      const DecodeSpec& spec = decode_spec(d->decode);
      d->tile_q = DecodeSpec::kTileQ;
      d->tile_k = spec.tile_k;
      d->dim = spec.dim;
      d->scored = spec.scored;
      d->packed = static_cast<int>(group);
      d->own_splits = decode_splits(d->decode, problem, env);
      return {};
    }
  }
  if (!kPaths.general) return {ATTN_UNSUPPORTED, "the decode path does not take this problem"};
  if (std::max(problem.dim_qk, problem.dim_v) > kUsualDim) {
    if (Refusal refusal = decide_wide(call, d)) return refusal;
  } else {
    if (Refusal refusal = choose_shape(kSplitkShapes, problem, call.env, &d->shape)) return refusal;
    d->tile_q = kSplitkShapes[d->shape].tile_q;
    d->tile_k = kSplitkShapes[d->shape].tile_k;
    d->dim = kSplitkShapes[d->shape].dim;
  }
  // Query heads of one KV head share a tile if one head would fill at most half of it.
  d->packed = group > 1 && problem.seq_q * 2 <= d->tile_q ? static_cast<int>(group) : 1;
  return {};
}

template <SplitkPaths kPaths>
Refusal decide(const Call& call, Decision* d) {
  const auto& [problem, tensors, env] = call;
  if (Refusal refusal = check_device(env)) return refusal;
  if (Refusal refusal = check_pages(problem)) return refusal;
  if (Refusal refusal = decide_path<kPaths>(call, d)) return refusal;

  const Refusal too_many = {ATTN_UNSUPPORTED,
                            "more than 2^31 - 1 blocks: batch * heads_q * query tiles * splits is too large"};
  const int64_t query_rows = product_within(problem.seq_q, d->packed, 1, kFar);
  if (query_rows < 0) return too_many;
  d->q_tiles = ceil_div(query_rows, d->tile_q);
  const int64_t blocks = product_within(d->q_tiles, problem.heads_q / d->packed, problem.batch, kMaxBlocks);
  if (blocks < 0) return too_many;
  const int64_t kv_tiles = ceil_div(problem.seq_k, d->tile_k);
  if (problem.num_splits > kMaxSplits) {
    return {ATTN_UNSUPPORTED, "num_splits = " + std::to_string(problem.num_splits) + " is more than 65535"};
  }
  d->splits = problem.num_splits > 0 ? problem.num_splits
              : d->decode >= 0       ? d->own_splits
                                     : choose_splits(blocks, kv_tiles, env.sm_count);
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

template <SplitkPaths kPaths>
Refusal plan_splits(const Call& call, attn_plan* plan) {
  Decision d;
  if (Refusal refusal = decide<kPaths>(call, &d)) return refusal;
  const ForwardParams params = make_params(call.problem, call.tensors, call.env, d.packed);
  describe_arithmetic(params, plan);
  const bool latent = d.dim > kUsualDim && call.problem.latent != 0;
  std::snprintf(plan->path, sizeof plan->path, "%dx%d d%d%s%s%s %s", static_cast<int>(d.tile_q),
                static_cast<int>(d.tile_k), d.dim, latent ? " latent" : "", d.packed > 1 ? " packed" : "",
                d.splits > 1 ? " split" : "",
                d.decode < 0 ? copy_path(params).c_str()
                : d.scored   ? "wgmma scored"
                             : "wgmma");
  plan->tile_q = d.tile_q;
  plan->tile_k = d.tile_k;
  plan->num_splits = d.splits;
  plan->split_tiles = d.split_tiles;
  plan->rescales = d.split_tiles;
  plan->merges = d.splits > 1 ? d.splits : 0;
  plan->merge_rule = ATTN_MERGE_BY_WEIGHT;
  plan->merge_order = d.decode < 0 ? ATTN_MERGE_ASCENDING : ATTN_MERGE_BY_FOURS;
  if (d.scored) plan->score_rule = ATTN_SCORE_BY_FMA;
  if (call.problem.kv_dtype != 0) plan->kv_rule = ATTN_KV_DEQUANTISED;
  plan->workspace_bytes = d.workspace;
  return {};
}

inline SplitParams split_params(const Decision& d, const attn_tensors& tensors) {
  std::byte* workspace = static_cast<std::byte*>(tensors.workspace);
  return {reinterpret_cast<float*>(workspace), reinterpret_cast<float*>(workspace + d.lse_offset), d.splits,
          d.split_tiles, d.rows};
}

template <SplitkPaths kPaths>
attn_status launch_partial(const Call& call, const Decision& d, bool direct) {
  const auto& [problem, tensors, env] = call;
  const ForwardParams params = make_params(problem, tensors, env, d.packed);
  const SplitParams split = split_params(d, tensors);
  if constexpr (kPaths.decode) {
    if (d.decode >= 0) return decode_partial(d.decode, problem, params, split, direct, &env);
  }
  if (problem.kv_dtype != 0) {
    const auto launch_narrow =
        problem.dtype == ATTN_F16 ? splitk_launch_partial<F16, true> : splitk_launch_partial<BF16, true>;
    return launch_narrow(d.shape, params, split, direct, &env);
  }
  if (d.wide) {
    const auto launch_wide = problem.dtype == ATTN_F16 ? splitk_launch_wide<F16> : splitk_launch_wide<BF16>;
    return launch_wide(params, split, problem.latent != 0, direct, &env);
  }
  return problem.dtype == ATTN_F16 ? splitk_launch_partial<F16>(d.shape, params, split, direct, &env)
                                   : splitk_launch_partial<BF16>(d.shape, params, split, direct, &env);
}

// `close`: the launch directly follows launch_partial().
template <SplitkPaths kPaths>
attn_status launch_reduce(const Call& call, const Decision& d, bool close) {
  const auto& [problem, tensors, env] = call;
  const ForwardParams params = make_params(problem, tensors, env, d.packed);
  const SplitParams split = split_params(d, tensors);
  if constexpr (kPaths.decode) {
    if (d.decode >= 0) return decode_reduce(d.decode, problem, params, split, close, &env);
  }
  return problem.dtype == ATTN_F16 ? splitk_launch_reduce<F16>(params, split, &env)
                                   : splitk_launch_reduce<BF16>(params, split, &env);
}

enum class Work { kAll, kPartial, kReduce };

template <SplitkPaths kPaths>
attn_status run_stages(Work work, const Call& call) {
  const attn_tensors& tensors = call.tensors;
  Decision d;
  if (Refusal refusal = decide<kPaths>(call, &d)) return refusal.status;
  if (d.rows == 0) return ATTN_OK;
  const bool direct = work == Work::kAll && d.splits == 1;
  if (!direct && (tensors.workspace == nullptr || tensors.workspace_bytes < d.workspace ||
                  reinterpret_cast<uintptr_t>(tensors.workspace) % 16 != 0)) {
    return ATTN_INVALID;
  }
  if (work != Work::kReduce) {
    const attn_status status = launch_partial<kPaths>(call, d, direct);
    if (status != ATTN_OK || direct) return status;
  }
  return work == Work::kPartial ? ATTN_OK : launch_reduce<kPaths>(call, d, work == Work::kAll);
}

inline attn_partials place_partials(const attn_problem& problem, const attn_plan& plan) {
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

}  // namespace splitk

// The kernel in the form of a plug-in (kernels/plug_in.h). The descriptor adds its name.
template <SplitkPaths kPaths>
struct SplitkOn {
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_SINK | ATTN_FEATURE_WIDE | ATTN_FEATURE_LATENT | ATTN_FEATURE_ALIBI | ATTN_FEATURE_INDEX32 |
      ATTN_FEATURE_PAGED |
      (kPaths.general ? ATTN_FEATURE_RAGGED | ATTN_FEATURE_KV8 | ATTN_FEATURE_KEY_STEP : 0);
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static Refusal plan(const Call& call, attn_plan* plan) { return splitk::plan_splits<kPaths>(call, plan); }
  static attn_status run(const Call& call, const attn_plan&) { return stages(splitk::Work::kAll, call); }
  static attn_status partial(const Call& call, const attn_plan&) {
    return stages(splitk::Work::kPartial, call);
  }
  static attn_status reduce(const Call& call, const attn_plan&) { return stages(splitk::Work::kReduce, call); }
  static attn_partials partials(const attn_problem& p, const attn_plan& plan) {
    return splitk::place_partials(p, plan);
  }

 private:
  static attn_status stages(splitk::Work work, const Call& call) {
    return splitk::run_stages<kPaths>(work, call);
  }
};

}  // namespace attn
