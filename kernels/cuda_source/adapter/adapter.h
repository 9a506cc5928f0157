// Makes a plug-in of a plain CUDA kernel in a few lines: a declaration says which problems the kernel takes,
// and this header implements the rest of the contract.
//
//   #include "kernels/adapter.h"         // first, so that the source's macros do not change it
//   #include "attention.cu"              // void launch(const half* q, ..., int B, int H, int S, int D)
//
//   struct Mine {
//     static constexpr const char* kName = "mine";
//     static constexpr attn::Takes kTakes = {.dim = attn::one_of(32, 64), .equal_lengths = true};
//     static void run(const attn::Args& a) { launch(a.q, a.k, a.v, a.o, a.B, a.H, a.S, a.D); }
//   };
//   ATTN_ADAPTER(Mine)
//
// A problem outside of Takes is refused with the reason. For other problems run() gets dense tensors. If a
// tensor of the caller is not dense, is not aligned to `align_bytes`, or is not in the kernel's order of
// dimensions, run() gets a copy in the workspace, between redzones. Afterwards the copies of inputs are
// compared with the caller's tensors. If the kernel has its own scale, Q is multiplied by problem scale / own
// scale. The plan's path says which copies were made. A copy can hide errors with strides, but not errors with
// elements.
//
// A kernel of fp32 (Formats::kF32) is judged in fp32: its inputs have 24 bits, and a product or a P that it
// rounds to fewer bits is an error unless it declares in_tf32, or a format in plan().
//
// Optional members of the struct:
//   static void plan(const attn::Call&, attn_plan*)   sets fields of a plan that has the loosest classes
//   static constexpr const char* kDescription
// It needs C++20, and works on the executor and, compiled by nvcc, on a GPU.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/cuda_source/adapter/args.h"
#include "kernels/cuda_source/adapter/backend.h"
#include "kernels/identity.h"
#include "kernels/plug_in.h"

namespace attn {

using attn_entry::Args;
using attn_entry::Pointer;
using attn_entry::Stream;

// The plug-in around K.
template <class K>
struct Adapted {
  static constexpr const char* kName = K::kName;
  static constexpr const char* kDescription = [] {
    if constexpr (requires { K::kDescription; }) return K::kDescription;
    return "a CUDA kernel as it stands, with an adapter";
  }();
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static_assert(K::kTakes.has_tile(), "Takes: tile is the size of a tile: at least 1");
  static_assert(K::kTakes.has_alignment(), "Takes: align_bytes is a power of two");
  // --entry has checked what the user said; statements that were found by running the function come after it.
  static constexpr bool kFromEntry = requires { K::format(); };
  static_assert(kFromEntry || K::kTakes.uses_dim_v(), "Takes: dim_v needs equal_dims = false");
  static_assert(kFromEntry || K::kTakes.uses_seq_k(), "Takes: seq_k needs equal_lengths = false");
  static constexpr uint64_t kFeatures =
      (K::kTakes.sink ? ATTN_FEATURE_SINK : 0) | (K::kTakes.slopes != Slopes::kNever ? ATTN_FEATURE_ALIBI : 0) |
      (K::kTakes.packed ? ATTN_FEATURE_RAGGED : 0) | (K::kTakes.page != 0 ? ATTN_FEATURE_PAGED : 0);
  static inline constinit Takes kTakes = K::kTakes;
  static inline constinit attn_domain kDeclared = K::kTakes.domain();
  static constexpr const attn_domain* kDomain = &kDeclared;

  // Makes the descriptor when the library is loaded, because the format may come from another translation unit.
  static attn_kernel kernel() {
    if constexpr (requires { K::format(); }) {
      if (kTakes.format == Formats::kOfFunction) kTakes.format = K::format();
      kDeclared = kTakes.domain();
    }
    return plug_in<Adapted>();
  }

  static Refusal plan(const Call& call, attn_plan* plan) {
    using namespace adapter;
    if (const std::string why = refusal(kTakes, call); !why.empty()) return {ATTN_UNSUPPORTED, why};
    const attn_problem& p = call.problem;
    plan->tile_q = plan->tile_k = kTakes.tile;
    plan->split_tiles = ceil_div(p.seq_k, kTakes.tile);
    const Layout layout = layout_of(kTakes, call);
    plan->workspace_bytes = layout.bytes;
    plan->workspace_align = layout.bytes ? kGap : 1;
    if (kTakes.in_fp32) {
      plan->accumulator = ATTN_ACC_FFMA;
      plan->exp_class = ATTN_EXP_FAST_EXPF;
      plan->scale_mode = ATTN_SCALE_SEPARATE;
      plan->p_format = ATTN_FORMAT_F32;
    }
    if (kTakes.in_tf32) {
      plan->accumulator = ATTN_ACC_TENSOR;
      plan->qk_format = plan->p_format = plan->v_format = ATTN_FORMAT_TF32;
    }
    if (layout.folds) plan->scale_mode = ATTN_SCALE_FOLDED_Q;
    if constexpr (requires { K::plan(call, plan); }) K::plan(call, plan);
    std::string path = kName;
    if (layout.folds) path += ", scale in Q";
    std::string copies;
    for (int i = kQ; i <= kLse; ++i) {
      if (layout.pieces[static_cast<size_t>(i)].made)
        copies += copies.empty() ? kPieceNames[i] : std::string(" ") + kPieceNames[i];
    }
    if (!copies.empty()) path += ", copies " + copies;
    snprintf(plan->path, sizeof plan->path, "%s", path.c_str());
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    using namespace adapter;
    const attn_problem& p = call.problem;
    if (p.batch == 0 || p.heads_q == 0 || p.seq_q == 0) return ATTN_OK;
    const Layout layout = layout_of(kTakes, call);
    if (layout.bytes > call.tensors.workspace_bytes) return ATTN_INVALID;
    auto* const space = static_cast<char*>(call.tensors.workspace);
    Args args = {};
    const auto at = [&](Piece i) {
      const Copy& c = layout.pieces[i];
      return static_cast<void*>(c.made ? space + c.offset : static_cast<char*>(c.from.data));
    };
    fill(call, space, kRedzone, layout.bytes);
    if (kTakes.packed) {
      args.cu_q = make_offsets(call, at(kCuQ), call.tensors.cu_q, p.seq_q);
      if (layout.pieces[kCuK].made) args.cu_k = make_offsets(call, at(kCuK), call.tensors.cu_k, p.seq_k);
      const Rows queries = rows_of_queries(p), keys = rows_of_keys(p);
      args.total_q = static_cast<int>(queries.entries * queries.count);
      args.total_k = static_cast<int>(keys.entries * keys.count);
    }
    if (layout.page > 0) make_pages(call, page_table(call, layout, space));
    for (Piece i : {kQ, kK, kV}) copy(call, layout, i, space, false);
    args.q = {at(kQ)}, args.k = {at(kK)}, args.v = {at(kV)}, args.o = {at(kO)};
    args.lse = static_cast<float*>(at(kLse));
    args.B = static_cast<int>(p.batch), args.H = static_cast<int>(p.heads_q),
    args.Hkv = static_cast<int>(p.heads_kv);
    args.S = args.Sk = static_cast<int>(p.seq_k), args.Sq = static_cast<int>(p.seq_q);
    args.D = static_cast<int>(p.dim_qk), args.Dv = static_cast<int>(p.dim_v);
    args.scale = kTakes.scale == Scale::kOwn ? kTakes.scale.own(p) : p.scale;
    args.causal = p.causal != 0;
    args.window_left = window_side(p.window_left), args.window_right = window_side(p.window_right);
    args.dtype = p.dtype;
    if (p.has_sink) args.sink = static_cast<const float*>(call.tensors.sink.data);
    if (p.has_alibi) args.slopes = static_cast<const float*>(call.tensors.slopes.data);
    args.slopes_each = p.batch > 1 ? static_cast<int>(call.tensors.slopes.stride[0]) : 0;
    args.by_head = kTakes.order == Order::kBhsd && !kTakes.packed;
    args.block_table = args.pages = static_cast<const int*>(at(kPages));
    args.key_lengths = args.lengths = static_cast<const int*>(at(kLengths));
    args.page_size = args.page = static_cast<int>(layout.page);
    args.pages_per_seq = args.pages_each = static_cast<int>(layout.pages_each);
    args.num_pages = args.pages_all = static_cast<int>(layout.pages_all);
    bool asked_for_stream = false;
    args.stream = {static_cast<::cudaStream_t>(call.env.stream), &asked_for_stream};
    const attn_status status = run_between_redzones(call, kTakes, layout, space, [&] {
      K::run(std::as_const(args));
      return asked_for_stream;
    });
    if (status != ATTN_OK) return status;
    for (Piece i : {kO, kLse}) copy(call, layout, i, space, true);
    return ATTN_OK;
  }

 private:
  static const int* make_offsets(const Call& call, void* to, const void* given, int64_t rows) {
    adapter::make_borders(call, static_cast<int*>(to), given, rows);
    return static_cast<const int*>(to);
  }
  static int window_side(int64_t keys) {
    return keys < 0 ? -1 : static_cast<int>(std::min<int64_t>(keys, 1 << 30));
  }
  // Moves elements between the caller's tensor and its copy, if it has one.
  static void copy(const Call& call, const adapter::Layout& layout, adapter::Piece i, char* space, bool out) {
    const adapter::Copy& c = layout.pieces[i];
    if (c.made && c.from.data) move_each(call, move_of(call, layout, i, space, out), c.count());
  }
};

}  // namespace attn

// Exports the adapter as the library's only kernel.
#define ATTN_ADAPTER(K)                                                   \
  static const attn_kernel attn_adapted_##K = attn::Adapted<K>::kernel(); \
  const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn_adapted_##K : nullptr; }
