// The kernel nsa: attention over listed blocks (ATTN_FEATURE_SELECTED). README.md is the manual.
#include "kernels/forward/all_formats.h"
#include "kernels/identity.h"
#include "kernels/nsa/make_params.h"
#include "kernels/primitives/launch.h"

namespace attn::nsa {
namespace {

// Batch entries times KV heads times queries; negative if they do not fit a grid.
int64_t blocks_of(const attn_problem& p) { return product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks); }

struct Selected {
  static constexpr const char* kName = "nsa";
  static constexpr const char* kDescription = "native sparse attention: attention over listed blocks";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_SELECTED | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if (blocks_of(p) < 0) return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_kv * seq_q is too large"};
    if (p.select > kMostSelect) return {ATTN_UNSUPPORTED, "lists of more than 4096 indices"};
    const size_t bytes = Shared::bytes(p.select);
    if (call.env.shared_memory_limit < static_cast<int64_t>(bytes))
      return {ATTN_UNSUPPORTED, "needs " + std::to_string(bytes) + " bytes of shared memory a block"};
    *plan = plain_plan("a warp a head", kTile, p.seq_k);
    plan->tile_q = 1;
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->log_class = ATTN_LOG_LG2_APPROX;
    plan->rcp_class = ATTN_RCP_APPROX;
    plan->tanh_class = ATTN_TANH_TANHF;
    plan->rescales = ceil_div(p.select * span_of(p), kTile);
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = 1;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const int64_t blocks = blocks_of(p);
    if (blocks == 0 || p.heads_q == 0 || rows_of_queries(p).count == 0) return ATTN_OK;
    const auto kernel = p.dtype == ATTN_F32   ? selected_kernel<float>
                        : p.dtype == ATTN_F16 ? selected_kernel<F16>
                                              : selected_kernel<BF16>;
    return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), Shared::bytes(p.select), &call.env,
                  make_params(call));
  }
};

const attn_kernel kSelected = plug_in<Selected>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kSelected : nullptr; }
