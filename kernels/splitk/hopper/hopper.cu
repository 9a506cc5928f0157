// The kernels of the decode path, and its host side: which problems the path takes, in how many splits, and the
// launches. Every shape of kInstantiations is compiled here.
#include <algorithm>
#include <array>

#include "kernels/forward/checks.h"
#include "kernels/primitives/dependent.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/splitk/hopper/consumer.h"
#include "kernels/splitk/hopper/finish.h"
#include "kernels/splitk/hopper/hopper.h"
#include "kernels/splitk/hopper/latent/latent.h"
#include "kernels/splitk/hopper/make_params.h"
#include "kernels/splitk/hopper/producer.h"
#include "kernels/splitk/hopper/shapes.h"

namespace attn {

// A block is a warpgroup, the consumer, and a warp, of which one elected thread is the producer. R: how many of
// its two rows a thread of the consumer uses. A scored shape with R = 2 needs twice the registers for its bias,
// so a multiprocessor holds one block. Slopes always take R = 2.
template <class T, class Shape, int R>
__global__ void __launch_bounds__(DecodeSpec::kThreads,
                                  R == 2 && Shape::kSpec.scored ? 1 : Shape::kSpec.blocks_per_sm)
    splitk_decode_kernel(const __grid_constant__ DecodeParams p) {
  if constexpr (kHasWarpgroups) {
    constexpr DecodeSpec kSpec = Shape::kSpec;
    const DecodePipeline<T, kSpec> pipe = decode_pipeline<T, kSpec>();
    if (warpgroup_id() == 0) {
      decode<T, kSpec, R>(p, pipe);
    } else {
      const bool loader = elect_one();
      if (loader) {
        tma_prefetch(p.k);
        tma_prefetch(p.v);
        for (int n = 0; n < kSpec.barriers(); ++n) mbarrier_init(pipe.k_full + n, 1);
        mbarrier_init_fence();
      }
      syncwarp();
      bar_arrive(kReadyBarrier, DecodeSpec::kThreads);
      if (loader) load_keys(p, pipe);
    }
  } else {
    no_warpgroups();
  }
}

namespace {

template <class T, class Shape>
attn_status launch_shape(const DecodeParams& params, unsigned blocks, const attn_env* env) {
  const bool one_row = params.rows <= 8 && params.forward.slopes.data == nullptr;
  return launch_dependent(
      one_row ? splitk_decode_kernel<T, Shape, 1> : splitk_decode_kernel<T, Shape, 2>, dim3(blocks),
      dim3(DecodeSpec::kThreads), Shape::kSpec.shared(), env, params);
}

struct Instantiation {
  DecodeSpec spec;
  attn_status (*f16)(const DecodeParams&, unsigned, const attn_env*);
  attn_status (*bf16)(const DecodeParams&, unsigned, const attn_env*);
};

template <class Shape>
constexpr Instantiation instantiation() {
  return {Shape::kSpec, launch_shape<F16, Shape>, launch_shape<BF16, Shape>};
}

constexpr std::array kInstantiations = {instantiation<Decode64>(), instantiation<Decode128>(),
                                        instantiation<Decode256>(), instantiation<Decode64Scored>(),
                                        instantiation<Decode128Scored>()};

// An item of more tiles gets a block of its own.
constexpr int64_t kLongItem = 32;
// With key lengths: the items for each block that runs at once, and the fewest tiles of an item.
constexpr int64_t kItemsABlock = 8, kLeastItem = 8;
constexpr int64_t kMostSplits = 128;

const Instantiation& at(int choice) { return kInstantiations[static_cast<size_t>(choice)]; }

// The choice of the path for a latent V (latent/latent.h), and what plan() asks about it.
constexpr int kLatent = static_cast<int>(kInstantiations.size());
constexpr DecodeSpec kLatentSpec = {LatentSpec::kDimQk, LatentSpec::kTileK, LatentSpec::kStages, 1};
static_assert(LatentSpec::kTileQ == DecodeSpec::kTileQ);

}  // namespace

int decode_choice(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) {
  if (env.variant != 0 || env.compute_capability != 90) return -1;
  if (problem.ragged != 0 || problem.kv_dtype != 0 || problem.key_step != 0) return -1;
  if (problem.batch == 0 || problem.heads_q == 0 || problem.seq_q == 0 || problem.seq_k == 0) return -1;
  if (problem.seq_q >= kDecodeSequence || problem.seq_k >= kDecodeSequence) return -1;
  if (latent_takes(problem, tensors, env)) return kLatent;
  const int64_t group = problem.heads_q / problem.heads_kv;
  if (product_within(problem.seq_q, group, 1, DecodeSpec::kTileQ) < 0) return -1;
  if (product_within(problem.batch, problem.heads_q, problem.seq_q, kMaxBlocks) < 0) return -1;
  const ForwardParams params = make_params(problem, tensors, env, static_cast<int>(group));
  if (ScoreTerms terms; !params.async_q || !make_score_terms(problem, params, &terms)) return -1;
  const bool scored = params.mode != ScoreMode::kFused;
  if (problem.dim_v % 2 != 0) return -1;  // partial results are written two columns at a time
  for (const Strided* tensor : {&params.k, &params.v}) {
    if (tensor->stride[3] != 1) return -1;
  }
  if (!tensor_map_fits(tensor_of_keys(problem, params)) || !tensor_map_fits(tensor_of_values(problem, params))) return -1;
  for (size_t n = 0; n < kInstantiations.size(); ++n) {
    const DecodeSpec& spec = kInstantiations[n].spec;
    if (std::max(problem.dim_qk, problem.dim_v) > spec.dim || scored != spec.scored) continue;
    if (static_cast<int64_t>(spec.shared()) > env.shared_memory_limit || !device_has_warpgroups()) return -1;
    if (problem.page_size != 0 && box_rows_of(problem.page_size, spec.tile_k) == 0) return -1;
    return static_cast<int>(n);
  }
  return -1;
}

const DecodeSpec& decode_spec(int choice) { return choice == kLatent ? kLatentSpec : at(choice).spec; }

// The unit of time is what a block needs to compute a tile that has been loaded. At 128 columns the memory of
// an H200 delivers 0.6 tiles per multiprocessor in that time, and the blocks of a multiprocessor share them.
// Computing and loading overlap: the longer one counts whole, and half of the shorter one. A merge costs 3, and
// 1/512 per partial row (docs/results/tuning.md).
int64_t decode_splits(int choice, const attn_problem& problem, const attn_env& env) {
  if (choice == kLatent) return latent_splits(problem, env);
  const DecodeSpec& spec = decode_spec(choice);
  const int64_t heads = problem.batch * problem.heads_kv, tiles = ceil_div(problem.seq_k, spec.tile_k);
  const int64_t sms = std::max<int64_t>(env.sm_count, 1);
  if (heads * 10 >= sms * 9) return 1;
  const double rows = static_cast<double>(problem.batch * problem.heads_q * problem.seq_q);
  const double delivery = static_cast<double>(heads) * tiles / (0.6 * sms * 128 / spec.dim);
  int64_t best = 1;
  double least = 0;
  for (int64_t splits = 1; splits <= std::min<int64_t>(tiles, kMostSplits); ++splits) {
    const double work = static_cast<double>(ceil_div(heads * splits, sms)) * ceil_div(tiles, splits);
    const double cost =
        std::max(work, delivery) + std::min(work, delivery) / 2 + (splits > 1 ? 3 + rows * splits / 512 : 0);
    if (splits == 1 || cost < least) best = splits, least = cost;
  }
  if (!problem.has_key_lengths) return best;
  // Items differ in cost, and a multiprocessor takes the next one when it is free. It should get several, but a
  // merge may cost a quarter of the tiles at most.
  const int64_t tiles_a_block = heads * tiles / (sms * spec.blocks_per_sm);
  const int64_t of_item = std::clamp<int64_t>(tiles_a_block / kItemsABlock, kLeastItem, kLongItem);
  const int64_t merged = static_cast<int64_t>(128 * static_cast<double>(tiles_a_block) / rows);
  return std::max(best, std::min({ceil_div(tiles, of_item), merged, kMostSplits}));
}

attn_status decode_partial(int choice, const attn_problem& problem, const ForwardParams& params,
                           const SplitParams& split, bool direct, const attn_env* env) {
  if (choice == kLatent) return latent_partial(problem, params, split, direct, env);
  const DecodeSpec& spec = decode_spec(choice);
  DecodeParams p = decode_params(problem, params, split);
  p.direct = direct;
  p.box_rows = problem.page_size != 0 ? box_rows_of(problem.page_size, spec.tile_k) : 0;
  const int rows = p.box_rows != 0 ? p.box_rows : spec.tile_k;
  if (spec.scored) {
    if (!make_score_terms(problem, params, &p.terms)) return ATTN_UNSUPPORTED;
    p.sign = 1;
  }
  char reason[160];
  // Both formats have 16 bits.
  if (!make_tensor_map<F16>(&p.k, tensor_of_keys(problem, params), rows, reason, sizeof reason) ||
      !make_tensor_map<F16>(&p.v, tensor_of_values(problem, params), rows, reason, sizeof reason)) {
    report_launch(env, ATTN_REPORT_LAUNCH, reason);
    return ATTN_LAUNCH_FAILED;
  }
  // If items are short, launch as many blocks as run at once; each goes on to its next item. If they are long, or
  // differ in cost, launch one block for each item. The multiprocessor that is free first then takes the next item:
  // not all multiprocessors get the same memory bandwidth.
  const unsigned most = static_cast<unsigned>(env->sm_count) * static_cast<unsigned>(spec.blocks_per_sm);
  const bool one_by_one = split.split_tiles > kLongItem || problem.has_key_lengths;
  const unsigned blocks = one_by_one ? p.items : std::min(p.items, most);
  return problem.dtype == ATTN_F16 ? at(choice).f16(p, blocks, env) : at(choice).bf16(p, blocks, env);
}

attn_status decode_reduce(int choice, const attn_problem& problem, const ForwardParams& params,
                          const SplitParams& split, bool close, const attn_env* env) {
  if (choice == kLatent) return latent_reduce(problem, params, split, close, env);
  const DecodeParams p = decode_params(problem, params, split);
  const auto kernel = problem.dtype == ATTN_F16 ? splitk_merge_kernel<F16> : splitk_merge_kernel<BF16>;
  const dim3 grid(static_cast<unsigned>(split.rows)), block(kMergeThreads);
  const size_t shared = shared_bytes<Merged>(kMergeGroups * kMostColumns);
  return launch_as(close, kernel, grid, block, shared, env, p);
}

}  // namespace attn
