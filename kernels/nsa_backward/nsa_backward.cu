// The kernel nsa_backward: gradients of attention over listed blocks (ATTN_FEATURE_SELECTED_BACKWARD).
// README.md is the manual.
#include "kernels/forward/all_formats.h"
#include "kernels/identity.h"
#include "kernels/nsa/make_params.h"
#include "kernels/nsa_backward/gradients.h"
#include "kernels/primitives/launch.h"

namespace attn::nsa {
namespace {

// Numbers of rows, blocks and indices; a number is negative if it is too large for the kernels. The workspace
// has arrays of `rows`, `entries`, `entries` and `borders` numbers of 4 bytes.
struct Counts {
  int64_t rows, keys;        // queries of all heads, keys of all KV heads
  int64_t lists;             // queries of all KV heads
  int64_t heads;             // KV heads of all batch entries
  int64_t places;            // indices of all queries of a KV head
  int64_t blocks;            // blocks of keys of a KV head
  int64_t entries, borders;  // indices of all lists; blocks of keys of all KV heads, plus one for each head

  explicit Counts(const attn_problem& p)
      : rows(product_within(p.batch, p.heads_q, p.seq_q, kMaxBlocks * kWarps)),
        keys(product_within(p.batch, p.heads_kv, p.seq_k, kMaxBlocks * kWarps)),
        lists(product_within(p.batch, p.heads_kv, p.seq_q, kMaxBlocks)),
        heads(product_within(p.batch, p.heads_kv, 1, kMaxBlocks)),
        places(product_within(p.seq_q, p.select, 1, kMaxBlocks)),
        blocks(product_within(blocks_of_keys(p), 1, 1, kMaxBlocks)),
        entries(product_within(lists < 0 ? kMaxBlocks : lists, p.select, 1, kMostNumbers)),
        borders(product_within(heads < 0 ? kMaxBlocks : heads, blocks_of_keys(p) + 1, 1, kMostNumbers)) {}
  bool fit() const { return std::min({rows, keys, lists, heads, places, blocks, entries, borders}) >= 0; }
  uint64_t bytes() const { return sizeof(int32_t) * static_cast<uint64_t>(rows + 2 * entries + borders); }

  static constexpr int64_t kMostNumbers = int64_t{1} << 40;
};

GradientParams make_gradient_params(const Call& call) {
  const attn_problem& a = call.problem;
  const attn_tensors t = strided(a, call.tensors);
  const Counts counts(a);
  GradientParams p = {};
  p.of = make_params(call);
  if (counts.rows == 0) p.of.seq_q = 0;  // without heads there are no lists either
  p.dout = t.dout, p.dq = t.dq, p.dk = t.dk, p.dv = t.dv;
  if ((a.features & ATTN_FEATURE_DLSE) != 0) p.dlse = t.dlse;
  p.rows = counts.rows, p.keys = counts.keys, p.blocks = counts.blocks, p.longest = p.of.seq_q;
  p.delta = static_cast<float*>(t.workspace);
  p.lists = static_cast<int32_t*>(t.workspace) + counts.rows;
  p.queries = p.lists + counts.entries;
  p.starts = p.queries + counts.entries;
  return p;
}

// The kernels of one format.
struct Kernels {
  void (*delta)(GradientParams);
  void (*dq)(GradientParams);
  void (*dkdv)(GradientParams);
};
template <class T>
constexpr Kernels kernels_for() {
  return {delta_kernel<T>, dq_kernel<T>, dkdv_kernel<T>};
}

struct SelectedBackward {
  static constexpr const char* kName = "nsa_backward";
  static constexpr const char* kDescription = "the gradients of attention over listed blocks, in a fixed order";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const attn_domain* kDomain = &kAllFormats;
  static constexpr uint64_t kFeatures = ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NO_FORWARD |
                                        ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 |
                                        ATTN_FEATURE_DLSE;

  static Refusal plan(const Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    const Counts counts(p);
    if (!counts.fit())
      return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks or indices: the problem is too large"};
    if (p.select > kMostSelect) return {ATTN_UNSUPPORTED, "lists of more than 4096 indices"};
    const size_t bytes = GradientShared::bytes(p.select);
    if (call.env.shared_memory_limit < static_cast<int64_t>(bytes))
      return {ATTN_UNSUPPORTED, "needs " + std::to_string(bytes) + " bytes of shared memory a block"};
    *plan = plain_plan("a warp a row", kTile, p.seq_k);
    plan->tile_q = 1;
    plan->exp_class = ATTN_EXP_EX2_APPROX;
    plan->tanh_class = ATTN_TANH_TANHF;
    plan->ds_format = plan->head_format = ATTN_FORMAT_F32;
    plan->dq_adds = plan->dkv_adds = 1;
    plan->flush_to_zero = 1;
    plan->isolates_masked_nan = 1;
    plan->workspace_bytes = counts.bytes();
    plan->workspace_align = sizeof(float);
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    const attn_problem& a = call.problem;
    const Counts counts(a);
    const GradientParams p = make_gradient_params(call);
    const Kernels kernels = a.dtype == ATTN_F32   ? kernels_for<float>()
                            : a.dtype == ATTN_F16 ? kernels_for<F16>()
                                                  : kernels_for<BF16>();
    const auto start = [&](void (*kernel)(GradientParams), int64_t blocks, int threads, size_t bytes) {
      if (blocks == 0) return ATTN_OK;
      return launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), bytes,
                    &call.env, p);
    };
    // Without rows cu_q and cu_k may be NULL. With keys and no queries, dq_kernel writes empty lists for the others.
    const int64_t keys = rows_of_keys(a).count > 0 ? counts.keys : 0,
                  rows = rows_of_queries(a).count > 0 || keys > 0 ? counts.rows : 0;
    attn_status status = start(kernels.delta, ceil_div(rows, kWarps), kThreads, 0);
    if (status == ATTN_OK && rows > 0)
      status = start(kernels.dq, counts.lists, kThreads, GradientShared::bytes(a.select));
    if (status == ATTN_OK && keys > 0) status = start(invert_kernel, counts.heads, 32, 0);
    if (status == ATTN_OK)
      status = start(kernels.dkdv, ceil_div(keys, kWarps), kThreads, GradientShared::bytes(0));
    return status;
  }
};

const attn_kernel kKernel = plug_in<SelectedBackward>();

}  // namespace
}  // namespace attn::nsa

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn::nsa::kKernel : nullptr; }
