// Makes the kernel a plug-in: says which problems it takes and how it computes, and exports
// the descriptor that attnfuzz looks for.
#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "launch.cuh"

namespace {

constexpr int64_t kFar = int64_t{1} << 60;  // an unbounded side of a window

// The number of blocks, or -1 if a grid cannot have so many.
int64_t blocks_of(const attn_problem& p) {
  return attn::product_within(attn::ceil_div(p.seq_q, kTile), p.heads_q, p.batch, attn::kMaxBlocks);
}

Strides strides(const attn_tensor& t) { return {t.stride[0], t.stride[1], t.stride[2], t.stride[3]}; }

struct Afternoon {
  static constexpr const char* kName = "afternoon";
  static constexpr const char* kDescription = "one-pass attention in plain CUDA, a thread a query row";
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;

  static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
    const attn_problem& p = call.problem;
    if (p.dim_qk > kMaxDim || p.dim_v > kMaxDim) return {ATTN_UNSUPPORTED, "head dimensions above 64"};
    if (p.bias_dtype != ATTN_NONE) return {ATTN_UNSUPPORTED, "a bias"};
    if (p.softcap > 0) return {ATTN_UNSUPPORTED, "a soft cap"};
    if (blocks_of(p) < 0) return {ATTN_UNSUPPORTED, "more than 2^31 - 1 blocks"};
    *plan = attn::plain_plan("a thread a row, 64x64", kTile, p.seq_k);
    plan->rescales =
        plan->split_tiles + 1;  // a tile is rescaled once when it is merged, and once for each later tile
    plan->flush_to_zero = 1;    // of __expf
    return {};
  }

  static attn_status run(const attn::Call& call, const attn_plan&) {
    const attn_problem& p = call.problem;
    const int64_t blocks = blocks_of(p);
    if (blocks == 0) return ATTN_OK;
    const attn_tensors t = attn::strided(p, call.tensors);
    AttentionArgs a = {};
    a.q = t.q.data;
    a.k = t.k.data;
    a.v = t.v.data;
    a.o = t.o.data;
    a.lse = static_cast<float*>(t.lse.data);
    a.mask = p.has_mask ? static_cast<const unsigned char*>(t.mask.data) : nullptr;
    a.key_lengths = p.has_key_lengths ? t.key_lengths : nullptr;
    a.q_strides = strides(t.q);
    a.k_strides = strides(t.k);
    a.v_strides = strides(t.v);
    a.o_strides = strides(t.o);
    a.lse_strides = strides(t.lse);
    a.mask_strides = strides(t.mask);
    a.heads_q = static_cast<int>(p.heads_q);
    a.heads_kv = static_cast<int>(p.heads_kv);
    a.tiles_q = static_cast<int>(attn::ceil_div(p.seq_q, kTile));
    a.seq_q = p.seq_q;
    a.seq_k = p.seq_k;
    a.dim_qk = static_cast<int>(p.dim_qk);
    a.dim_v = static_cast<int>(p.dim_v);
    a.scale = p.scale;
    a.left = p.window_left < 0 || p.window_left > kFar ? kFar : p.window_left;
    a.right = p.causal ? 0 : p.window_right < 0 || p.window_right > kFar ? kFar : p.window_right;
    a.bottom_right = p.align == ATTN_BOTTOM_RIGHT;
    return launch_attention(p.dtype == ATTN_BF16, a, static_cast<unsigned>(blocks), &call.env);
  }
};

const attn_kernel kernel = attn::plug_in<Afternoon>();

}  // namespace

const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kernel : nullptr; }
