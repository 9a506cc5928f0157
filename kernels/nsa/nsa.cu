// Native sparse attention: its stages, each a kernel with an operation of its own. README.md is the manual.
#include <algorithm>
#include <iterator>

#include "kernels/identity.h"
#include "kernels/nsa/select.h"
#include "kernels/nsa/selected.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

namespace attn::nsa {
namespace {

// The keys of a block that exist at most.
int64_t span_of(const attn_problem& p) { return std::max<int64_t>(std::min(p.block, p.seq_k), 1); }

SelectedParams make_params(const Call& call) {
  const attn_problem& a = call.problem;
  const attn_tensors t = strided(a, call.tensors);
  SelectedParams p = {};
  p.q = t.q, p.k = t.k, p.v = t.v, p.o = t.o, p.lse = t.lse, p.indices = t.indices;
  p.key_lengths = a.has_key_lengths ? t.key_lengths : nullptr;
  p.heads_kv = a.heads_kv, p.seq_q = a.seq_q, p.seq_k = a.seq_k, p.block = a.block, p.span = span_of(a);
  p.select = static_cast<int32_t>(a.select);
  p.group = static_cast<int32_t>(a.heads_q / std::max<int64_t>(a.heads_kv, 1));
  p.dim_qk = static_cast<int32_t>(a.dim_qk), p.dim_v = static_cast<int32_t>(a.dim_v);
  p.narrow = a.index_dtype == ATTN_INDEX_32;
  p.causal = a.causal != 0, p.bottom_right = a.align == ATTN_BOTTOM_RIGHT;
  p.scale = a.scale, p.softcap = a.softcap;
  p.inverse_cap = a.softcap > 0 ? 1.0f / a.softcap : 0.0f;
  return p;
}

// Batch entries times KV heads times queries; negative if a grid is too small for them.
int64_t blocks_of(const attn_problem& p) { return product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks); }

// All sizes, in all three formats.
constexpr attn_domain kAll = [] {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.dtypes = 1u << ATTN_F16 | 1u << ATTN_BF16 | 1u << ATTN_F32;
  return domain;
}();

struct Selected {
  static constexpr const char* kName = "nsa";
  static constexpr const char* kDescription = "native sparse attention: attention over listed blocks";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAll;
  static constexpr uint64_t kFeatures =
      ATTN_FEATURE_SELECTED | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_INDEX32;

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
    if (blocks == 0 || p.heads_q == 0) return ATTN_OK;
    const auto kernel = p.dtype == ATTN_F32   ? selected_kernel<float>
                        : p.dtype == ATTN_F16 ? selected_kernel<F16>
                                              : selected_kernel<BF16>;
    return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), Shared::bytes(p.select), &call.env,
                  make_params(call));
  }
};

// Batch entries times KV heads times queries, of which a block of threads takes kWarps.
int64_t lists_of(const attn_problem& p) { return product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks * kWarps); }

struct Select {
  static constexpr const char* kName = "nsa_select";
  static constexpr const char* kDescription = "native sparse attention: the choice of blocks by their scores";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr uint64_t kFeatures = ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_INDEX32;
  static constexpr int64_t kMostBlocks = 65536;  // of keys: each is compared with each

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if (lists_of(p) < 0) return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks: batch * heads_kv * seq_q is too large"};
    if (blocks_of_keys(p) > kMostBlocks) return {ATTN_UNSUPPORTED, "more than 65536 blocks of keys"};
    *plan = plain_plan("a warp a list", 32, blocks_of_keys(p));
    plan->tile_q = kWarps;
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const int64_t lists = lists_of(p);
    if (lists == 0) return ATTN_OK;
    const SelectParams params = {make_params(call), strided(p, call.tensors).scores, lists, p.select_first,
                                 p.select_last};
    return launch(select_kernel, dim3(static_cast<unsigned>(ceil_div(lists, kWarps))), dim3(kThreads), 0, &call.env,
                  params);
  }
};

const attn_kernel kKernels[] = {plug_in<Selected>(), plug_in<Select>()};

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < std::size(attn::nsa::kKernels) ? &attn::nsa::kKernels[index] : nullptr;
}
