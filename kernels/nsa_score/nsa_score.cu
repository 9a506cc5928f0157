// The kernel nsa_score: scores blocks of keys by attention over compressed keys, and chooses blocks
// (ATTN_FEATURE_NSA_SCORE). README.md is the manual.
#include <limits>

#include "kernels/forward/all_formats.h"
#include "kernels/identity.h"
#include "kernels/nsa/make_params.h"
#include "kernels/nsa_score/score.h"
#include "kernels/primitives/launch.h"

namespace attn::nsa {
namespace {

// Blocks of threads; negative if they do not fit a grid.
int64_t grid_of(const attn_problem& p) {
  return product_within(p.batch, p.heads_kv, ceil_div(p.seq_q, kQueries), kMaxBlocks);
}

ScoreParams params_of(const Call& call) {
  const attn_problem& a = call.problem;
  const attn_tensors t = strided(a, call.tensors);
  ScoreParams p = {};
  p.list.of = make_params(call);
  p.list.scores.stride[3] = 1;
  p.list.first = a.select_first, p.list.last = a.select_last;
  p.written = t.scores;
  p.blocks = blocks_of_keys(a);
  p.tiles = ceil_div(a.seq_q, kQueries);
  p.step = a.key_step, p.offset = a.key_offset;
  p.inverse_step = 1.0f / static_cast<float>(a.key_step);
  return p;
}

struct Score {
  static constexpr const char* kName = "nsa_score";
  static constexpr const char* kDescription =
      "native sparse attention: scores of blocks, and the choice by them";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_NSA_SCORE | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if (grid_of(p) < 0)
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_kv * seq_q / 16 is too large"};
    if (p.select > std::numeric_limits<int32_t>::max())
      return {ATTN_UNSUPPORTED, "lists of 2^31 indices or more"};
    constexpr int64_t kMostBlocks = 65536;  // of keys: each is compared with all others
    if (blocks_of_keys(p) > kMostBlocks) return {ATTN_UNSUPPORTED, "more than 65536 blocks of keys"};
    const size_t bytes = ScoreShared::bytes(blocks_of_keys(p), p.dim_qk);
    if (call.env.shared_memory_limit < static_cast<int64_t>(bytes))
      return {ATTN_UNSUPPORTED, "needs " + std::to_string(bytes) + " bytes of shared memory a block"};
    *plan = plain_plan("16 queries, 32 keys", kTile, p.seq_k);
    plan->tile_q = kQueries;
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = 1;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const int64_t grid = grid_of(p);
    // Without query heads no output is required, so its pointer may be null.
    if (grid == 0 || rows_of_queries(p).count == 0 || p.heads_q == 0) return ATTN_OK;
    const auto kernel = p.dtype == ATTN_F32   ? score_kernel<float>
                        : p.dtype == ATTN_F16 ? score_kernel<F16>
                                              : score_kernel<BF16>;
    return launch(kernel, dim3(static_cast<unsigned>(grid)), dim3(kThreads),
                  ScoreShared::bytes(blocks_of_keys(p), p.dim_qk), &call.env, params_of(call));
  }
};

const attn_kernel kScore = plug_in<Score>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kScore : nullptr; }
