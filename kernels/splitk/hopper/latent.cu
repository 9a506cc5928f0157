// The kernels of the path for a latent V, and its host side: which problems the path takes, in how many splits, and the
// launches.
#include <algorithm>
#include <array>

#include "kernels/forward/checks.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/splitk/hopper/latent/compute.h"
#include "kernels/splitk/hopper/latent/finish.h"
#include "kernels/splitk/hopper/latent/latent.h"
#include "kernels/splitk/hopper/make_params.h"

namespace attn {

// A multiprocessor holds one block, whose three warpgroups latent/compute.h describes.
template <class T>
__global__ void __launch_bounds__(LatentSpec::kThreads, 1)
    splitk_latent_kernel(const __grid_constant__ LatentParams p) {
  if constexpr (kHasWarpgroups) {
    const LatentPipeline<T> pipe = latent_pipeline<T>();
    const int role = warpgroup_id();
    if (role == 0) {
      give_registers<LatentSpec::kScoreRegisters>();
      score_latent<T>(p, pipe);
    } else {
      take_registers<LatentSpec::kOutputRegisters>();
      output_latent<T>(p, pipe, role - 1);
    }
  } else {
    no_warpgroups();
  }
}

namespace {

constexpr int64_t kMostLatentSplits = 128;

int64_t latent_row_tiles(const attn_problem& problem) {
  return ceil_div(problem.seq_q * (problem.heads_q / problem.heads_kv), LatentSpec::kTileQ);
}

// True if rows of O are aligned chunks of 16 bytes.
bool whole_chunks(const Strided& o, const attn_problem& problem) {
  bool whole = reinterpret_cast<uintptr_t>(o.data) % 16 == 0 && problem.dim_v % 8 == 0 && o.stride[3] == 1;
  for (int i = 0; i < 3; ++i) whole = whole && o.stride[i] % 8 == 0;
  return whole;
}

}  // namespace

bool latent_takes(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) {
  // dim_v is at most dim_qk. Narrower heads take the other shapes.
  const bool dims = problem.dim_qk > 256 && problem.dim_qk <= LatentSpec::kDimQk && problem.dim_v <= LatentSpec::kDimV &&
                    problem.dim_v % 2 == 0;
  if (problem.latent == 0 || !dims) return false;
  const int64_t group = problem.heads_q / problem.heads_kv;
  const int64_t most = kMaxBlocks / (LatentSpec::kDimV / kLatentMergeColumns);  // blocks of the merge
  if (product_within(problem.batch, problem.heads_q, problem.seq_q, most) < 0) return false;
  const ForwardParams params = make_params(problem, tensors, env, static_cast<int>(group));
  if (!params.async_q || params.has_mask || params.mode != ScoreMode::kFused || params.k.stride[3] != 1) return false;
  if (!tensor_map_fits(tensor_of_keys(problem, params))) return false;
  if (problem.page_size != 0 && box_rows_of(problem.page_size, LatentSpec::kTileK) == 0) return false;
  return static_cast<int64_t>(LatentSpec::shared()) <= env.shared_memory_limit && device_has_warpgroups();
}

// Estimates times in microseconds: a block takes 1.9 for a tile and 5 to begin and end; the memory delivers the tiles
// of all blocks, each 72 KiB, at 4.2 TB/s; a merge takes 3.5, and moves 4 KiB for each partial row at 4 TB/s.
int64_t latent_splits(const attn_problem& problem, const attn_env& env) {
  const int64_t heads = problem.batch * problem.heads_kv, tiles = ceil_div(problem.seq_k, LatentSpec::kTileK);
  const int64_t blocks = heads * latent_row_tiles(problem), sms = std::max<int64_t>(env.sm_count, 1);
  const double rows = static_cast<double>(problem.batch * problem.heads_q * problem.seq_q);
  const double delivery = static_cast<double>(heads) * static_cast<double>(tiles) * 0.0176;
  int64_t best = 1;
  double least = 0;
  for (int64_t splits = 1; splits <= std::min<int64_t>(tiles, kMostLatentSplits); ++splits) {
    const double waves = static_cast<double>(ceil_div(blocks * splits, sms));
    const double work = waves * (1.9 * static_cast<double>(ceil_div(tiles, splits)) + 5);
    const double merge = splits > 1 ? 3.5 + rows * static_cast<double>(splits) * 0.001 : 0;
    const double cost = std::max(work, delivery) + std::min(work, delivery) / 8 + merge;
    if (splits == 1 || cost < least) best = splits, least = cost;
  }
  return best;
}

attn_status latent_partial(const attn_problem& problem, const ForwardParams& params, const SplitParams& split,
                           bool direct, const attn_env* env) {
  const auto row_tiles = static_cast<uint32_t>(latent_row_tiles(problem));
  LatentParams p = {decode_params(problem, params, split), row_tiles, direct ? whole_chunks(params.o, problem)
                                                                             : problem.dim_v % 4 == 0};
  p.decode.items *= p.row_tiles;
  p.decode.direct = direct;
  p.decode.box_rows = problem.page_size != 0 ? box_rows_of(problem.page_size, LatentSpec::kTileK) : 0;
  const int rows = p.decode.box_rows != 0 ? p.decode.box_rows : LatentSpec::kTileK;
  char reason[160];
  // Both formats have 16 bits.
  if (!make_tensor_map<F16>(&p.decode.k, tensor_of_keys(problem, params), rows, reason, sizeof reason)) {
    report_launch(env, ATTN_REPORT_LAUNCH, reason);
    return ATTN_LAUNCH_FAILED;
  }
  return launch_dependent(problem.dtype == ATTN_F16 ? splitk_latent_kernel<F16> : splitk_latent_kernel<BF16>,
                          dim3(p.decode.items), dim3(LatentSpec::kThreads), LatentSpec::shared(), env, p);
}

attn_status latent_reduce(const attn_problem& problem, const ForwardParams& params, const SplitParams& split,
                          bool close, const attn_env* env) {
  const DecodeParams p = decode_params(problem, params, split);
  const bool f16 = problem.dtype == ATTN_F16, shared = split.splits > kLatentFewSplits;
  const auto kernel = shared ? (f16 ? splitk_latent_merge_kernel<F16, true> : splitk_latent_merge_kernel<BF16, true>)
                             : (f16 ? splitk_latent_merge_kernel<F16, false> : splitk_latent_merge_kernel<BF16, false>);
  const int64_t of_row = ceil_div(problem.dim_v, kLatentMergeColumns), units = split.rows * of_row;
  const int64_t blocks = shared ? units : ceil_div(units, kLatentMergeWarps);
  return launch_as(close, kernel, dim3(static_cast<unsigned>(blocks)), dim3(kLatentMergeWarps * 32),
                   shared ? shared_bytes<MergedColumns>(kLatentMergeWarps * 32) : 0, env, p, static_cast<uint32_t>(units),
                   static_cast<uint32_t>(of_row));
}

}  // namespace attn
