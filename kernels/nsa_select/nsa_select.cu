// The kernel nsa_select: chooses the blocks of keys that each query attends over (ATTN_FEATURE_NSA_SELECT).
// README.md is the manual.
#include <limits>

#include "kernels/identity.h"
#include "kernels/nsa/make_params.h"
#include "kernels/nsa_select/select.h"
#include "kernels/primitives/launch.h"

namespace attn::nsa {
namespace {

// Lists: batch entries times KV heads times queries. A block of threads makes kWarps of them. Negative if they
// do not fit a grid.
int64_t lists_of(const attn_problem& p) { return product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks * kWarps); }

struct Select {
  static constexpr const char* kName = "nsa_select";
  static constexpr const char* kDescription = "native sparse attention: the choice of blocks by their scores";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
  static constexpr int64_t kMostBlocks = 65536;  // of keys: each is compared with all others

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if (lists_of(p) < 0) return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_kv * seq_q is too large"};
    if (p.select > std::numeric_limits<int32_t>::max()) return {ATTN_UNSUPPORTED, "lists of 2^31 indices or more"};
    if (blocks_of_keys(p) > kMostBlocks) return {ATTN_UNSUPPORTED, "more than 65536 blocks of keys"};
    *plan = plain_plan("a warp a list", 32, blocks_of_keys(p));
    plan->tile_q = kWarps;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const int64_t lists = lists_of(p);
    if (lists == 0 || rows_of_queries(p).count == 0) return ATTN_OK;
    const SelectParams params = {make_params(call), strided(p, call.tensors).scores, lists, p.select_first,
                                 p.select_last};
    return launch(select_kernel, dim3(static_cast<unsigned>(ceil_div(lists, kWarps))), dim3(kThreads), 0, &call.env,
                  params);
  }
};

const attn_kernel kSelect = plug_in<Select>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kSelect : nullptr; }
