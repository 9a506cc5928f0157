// Makes a plug-in of a kernel: refuses contradictory problems, sets fields that an older caller does not have
// to 0, and gives a plan its defaults.
//
//   struct Mine {
//     static constexpr const char* kName = "mine";
//     static constexpr const char* kDescription = "one thread per query";
//     static constexpr attn_backend kBackend = ATTN_CPU;
//     static attn::Refusal plan(const attn::Call& call, attn_plan* plan) {
//       if (call.problem.causal) return {ATTN_UNSUPPORTED, "a causal mask"};
//       return {};                         // takes it; *plan is default_plan(); declare more to get a sharper bound
//     }
//     static attn_status run(const attn::Call& call, const attn_plan& plan);   // runs what plan() takes
//   };
//   const attn_kernel kMine = attn::plug_in<Mine>();
//   const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kMine : nullptr; }
//
// plan() and run() are called only with problems that read_call() accepts, in structs of this file's own
// version. Mine may also have:
//   static constexpr std::array kVariants = {"small", "large"};
//   static constexpr uint64_t kFeatures = ...;                  // attn_kernel.features
//   static constexpr const attn_domain* kDomain = ...;          // the problems it takes, attn_kernel.domain
//   static constexpr const attn_build* kBuild = &attn_build_identity;   // kernels/identity.h
//   partial() and reduce(), with run()'s signature, and
//   static attn_partials partials(const attn_problem&, const attn_plan&)
// This is host code: it needs C++20 and no CUDA.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/attention.h"

namespace attn {

// A status other than ATTN_OK, and the sentence that plan() gives for it.
struct Refusal {
  attn_status status = ATTN_OK;
  std::string reason;
  explicit operator bool() const { return status != ATTN_OK; }
};

// The arguments of a call.
struct Call {
  attn_problem problem;
  attn_tensors tensors;
  attn_env env;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// a * b * c, or -1 if it exceeds `limit`.
inline int64_t product_within(int64_t a, int64_t b, int64_t c, int64_t limit) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_mul_overflow(product, c, &product)) return -1;
  return product > limit ? -1 : product;
}

// The most blocks of a one-dimensional CUDA grid.
inline constexpr int64_t kMaxBlocks = 2147483647;

// The tensor with strides that are safe for addresses. The stride of a dimension of one element may be
// anything, so it is replaced by 0, or by 1 in the last dimension.
inline attn_tensor strided(const attn_tensor& tensor, int64_t n0, int64_t n1, int64_t n2, int64_t n3) {
  const int64_t shape[4] = {n0, n1, n2, n3};
  attn_tensor result = {tensor.data, {}};
  for (int i = 0; i < 4; ++i) result.stride[i] = shape[i] > 1 ? tensor.stride[i] : i == 3 ? 1 : 0;
  return result;
}

// The numbers of batch entries and rows that a tensor of queries, or of keys, has in memory.
struct Rows {
  int64_t entries, count;
};
inline Rows rows_of_queries(const attn_problem& p) {
  return (p.ragged & ATTN_RAGGED_QUERIES) != 0 ? Rows{1, p.total_q} : Rows{p.batch, p.seq_q};
}
inline Rows rows_of_keys(const attn_problem& p) {
  if (p.page_size != 0) return {p.pages, p.page_size};
  return (p.ragged & ATTN_RAGGED_KEYS) != 0 ? Rows{1, p.total_k} : Rows{p.batch, p.seq_k};
}

// Element n of an array of lengths or offsets (attn_problem.index_dtype) in host memory.
//
//   const int64_t first = attn::index_at(p, t.cu_q, b), queries = attn::index_at(p, t.cu_q, b + 1) - first;
inline int64_t index_at(const attn_problem& p, const void* array, int64_t n) {
  return p.index_dtype == ATTN_INDEX_32 ? static_cast<const int32_t*>(array)[n] : static_cast<const int64_t*>(array)[n];
}

// The place of key j of batch entry b in K and in V: the indices of their first and third dimensions. The block
// table must be in host memory.
//
//   const attn::KeyPlace at = attn::key_place(p, t, b, j);
//   const auto* key = static_cast<const uint16_t*>(t.k.data) + at.first * t.k.stride[0] + g * t.k.stride[1] +
//                     at.row * t.k.stride[2];
struct KeyPlace {
  int64_t first, row;
};
inline KeyPlace key_place(const attn_problem& p, const attn_tensors& t, int64_t b, int64_t j) {
  if (p.page_size != 0)
    return {index_at(p, t.block_table.data, b * t.block_table.stride[0] + j / p.page_size), j % p.page_size};
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) return {0, index_at(p, t.cu_k, b) + j};
  return {b, j};
}

// The number of blocks of keys, or of positions if keys stand for blocks; 0 if the problem has no blocks.
inline int64_t blocks_of_keys(const attn_problem& p) {
  const int64_t positions = p.key_step > 0 ? p.seq_k * p.key_step + p.key_offset : p.seq_k;
  return p.block == 0 ? 0 : ceil_div(positions, p.block);
}

// All tensors with strides that are safe for addresses, each by its shape.
inline attn_tensors strided(const attn_problem& p, attn_tensors t) {
  const Rows q = rows_of_queries(p), k = rows_of_keys(p);
  t.q = strided(t.q, q.entries, p.heads_q, q.count, p.dim_qk);
  t.k = strided(t.k, k.entries, p.heads_kv, k.count, p.dim_qk);
  t.v = strided(t.v, k.entries, p.heads_kv, k.count, p.dim_v);
  t.o = strided(t.o, q.entries, p.heads_q, q.count, p.dim_v);
  t.lse = strided(t.lse, q.entries, p.heads_q, q.count, 1);
  t.bias = strided(t.bias, p.batch, p.heads_q, p.seq_q, p.seq_k);
  t.mask = strided(t.mask, p.batch, p.heads_q, p.seq_q, p.seq_k);
  t.slopes = strided(t.slopes, p.batch, p.heads_q, 1, 1);
  t.block_table = strided(t.block_table, p.batch, 1, 1, p.pages_per_seq);
  for (attn_tensor* side : {&t.o1, &t.o2}) *side = strided(*side, p.batch, p.heads_q, p.seq_q, p.dim_v);
  for (attn_tensor* side : {&t.lse1, &t.lse2}) *side = strided(*side, p.batch, p.heads_q, p.seq_q, 1);
  t.dout = strided(t.dout, q.entries, p.heads_q, q.count, p.dim_v);
  t.dlse = strided(t.dlse, q.entries, p.heads_q, q.count, 1);
  t.dq = strided(t.dq, q.entries, p.heads_q, q.count, p.dim_qk);
  t.dk = strided(t.dk, k.entries, p.heads_kv, k.count, p.dim_qk);
  t.dv = strided(t.dv, k.entries, p.heads_kv, k.count, p.dim_v);
  t.dbias = strided(t.dbias, p.batch, p.heads_q, p.seq_q, p.seq_k);
  t.dsink = strided(t.dsink, 1, p.heads_q, 1, 1);
  for (attn_tensor* scale : {&t.k_scale, &t.v_scale}) *scale = strided(*scale, p.batch, p.heads_kv, p.seq_k, 1);
  t.k_new = strided(t.k_new, q.entries, p.heads_kv, q.count, p.dim_qk);
  t.v_new = strided(t.v_new, q.entries, p.heads_kv, q.count, p.dim_v);
  t.copies = strided(t.copies, p.batch, 1, 1, 2);
  t.indices = strided(t.indices, q.entries, p.heads_kv, q.count, p.select);
  t.scores = strided(t.scores, q.entries, p.heads_kv, q.count, blocks_of_keys(p));
  t.k_cmp = strided(t.k_cmp, q.entries, p.heads_kv, q.count, p.dim_qk);
  t.v_cmp = strided(t.v_cmp, q.entries, p.heads_kv, q.count, p.dim_v);
  t.o3 = strided(t.o3, p.batch, p.heads_q, p.seq_q, p.dim_v);
  t.gates = strided(t.gates, p.batch, p.heads_q, p.seq_q, 3);
  return t;
}

inline uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// True if two elements of an output share an address, so that the result depends on which is written last. The
// answer is exact if each stride is beyond the reach of all smaller strides; every sensible layout is of this
// kind.
inline bool overlaps(const attn_tensor& tensor, std::array<int64_t, 4> shape) {
  if (std::ranges::any_of(shape, [](int64_t n) { return n == 0; })) return false;
  std::array<int, 4> order = {0, 1, 2, 3};
  std::ranges::sort(order, {}, [&](int i) { return magnitude(tensor.stride[i]); });
  unsigned __int128 reach = 1;  // strides are arbitrary, and their products with sizes exceed 64 bits
  for (int i : order) {
    if (shape[i] == 1) continue;
    if (magnitude(tensor.stride[i]) < reach) return true;
    reach += static_cast<unsigned __int128>(shape[i] - 1) * magnitude(tensor.stride[i]);
  }
  return false;
}

namespace plug_in_detail {

// The bits of operations other than the forward pass.
inline constexpr uint64_t kOtherOperations = ATTN_FEATURE_MERGE | ATTN_FEATURE_BACKWARD | ATTN_FEATURE_APPEND |
                                             ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_SELECTED | ATTN_FEATURE_NSA_SELECT |
                                             ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NSA_COMBINE |
                                             ATTN_FEATURE_SELECTED_BACKWARD | ATTN_FEATURE_NSA_SCORE;
// The operations that give gradients, and those that read lists of blocks.
inline constexpr uint64_t kGradients = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD,
                          kOfLists = ATTN_FEATURE_SELECTED | ATTN_FEATURE_SELECTED_BACKWARD;
// The operations that write lists of blocks.
inline constexpr uint64_t kOfChoices = ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NSA_SCORE;
// The operations that write K and V.
inline constexpr uint64_t kOfCaches = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES;

inline Refusal invalid(std::string reason) { return {ATTN_INVALID, std::move(reason)}; }

inline std::string name_value(const char* name, int64_t value) {
  return std::string(name) + " = " + std::to_string(value);
}

inline Refusal check_sizes(const attn_problem& p) {
  constexpr int64_t kMaxSize = int64_t{1} << 40;
  const struct {
    const char* name;
    int64_t value;
  } lengths[] = {{"batch", p.batch}, {"heads_q", p.heads_q}, {"heads_kv", p.heads_kv},
                 {"seq_q", p.seq_q}, {"seq_k", p.seq_k},     {"num_splits", p.num_splits},
                 {"total_q", p.total_q}, {"total_k", p.total_k}, {"page_size", p.page_size},
                 {"pages", p.pages},     {"pages_per_seq", p.pages_per_seq}, {"block", p.block},
                 {"select", p.select},   {"select_first", p.select_first}, {"select_last", p.select_last},
                 {"key_step", p.key_step}, {"key_offset", p.key_offset}};
  for (const auto& length : lengths) {
    if (length.value < 0 || length.value > kMaxSize)
      return invalid(name_value(length.name, length.value) + " is outside 0..2^40");
  }
  const int64_t most = (p.features & ATTN_FEATURE_WIDE) != 0 ? 1024 : 256;
  const std::string range = " is outside 1.." + std::to_string(most);
  if (p.dim_qk < 1 || p.dim_qk > most) return invalid(name_value("dim_qk", p.dim_qk) + range);
  if (p.dim_v < 1 || p.dim_v > most) return invalid(name_value("dim_v", p.dim_v) + range);
  if (p.heads_kv == 0 ? p.heads_q != 0 : p.heads_q % p.heads_kv != 0) {
    return invalid(name_value("heads_kv", p.heads_kv) + " does not divide " + name_value("heads_q", p.heads_q));
  }
  return {};
}

inline Refusal check_ragged(const attn_problem& p) {
  const bool ragged = (p.features & ATTN_FEATURE_RAGGED) != 0;
  if (ragged != (p.ragged != 0))
    return invalid("ragged is " + std::to_string(p.ragged) + ", but attn_problem.features " +
                   (ragged ? "asks for packed sequences" : "does not ask for packed sequences"));
  if (p.ragged < 0 || p.ragged > (ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS))
    return invalid(name_value("ragged", p.ragged) + " is not known");
  if ((p.ragged & ATTN_RAGGED_QUERIES) == 0 && p.total_q != 0)
    return invalid(name_value("total_q", p.total_q) + ", but queries are not packed");
  if ((p.ragged & ATTN_RAGGED_KEYS) == 0 && p.total_k != 0)
    return invalid(name_value("total_k", p.total_k) + ", but keys are not packed");
  const bool narrow = (p.features & ATTN_FEATURE_INDEX32) != 0;
  if (p.index_dtype != (narrow ? ATTN_INDEX_32 : ATTN_INDEX_64))
    return invalid(name_value("index_dtype", p.index_dtype) + ", but attn_problem.features " +
                   (narrow ? "asks for int32" : "does not ask for int32"));
  if (ragged && (p.features & ATTN_FEATURE_MERGE) != 0) return invalid("a merge has no packed sequences");
  return {};
}

inline Refusal check_pages(const attn_problem& p, const attn_tensors& t) {
  const bool paged = (p.features & ATTN_FEATURE_PAGED) != 0;
  if (paged != (p.page_size != 0))
    return invalid(name_value("page_size", p.page_size) + ", but attn_problem.features " +
                   (paged ? "asks for pages" : "does not ask for pages"));
  if (!paged && p.pages != 0) return invalid(name_value("pages", p.pages) + ", but K and V have no pages");
  if (!paged && p.pages_per_seq != 0)
    return invalid(name_value("pages_per_seq", p.pages_per_seq) + ", but K and V have no pages");
  if (!paged) return {};
  if ((p.features & kOtherOperations & ~kOfCaches) != 0)
    return invalid("only the forward pass, an append and a copy of pages have pages");
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) return invalid("keys in pages are not packed");
  if ((p.features & ATTN_FEATURE_COPY_PAGES) != 0) return {};  // batch counts pairs of pages, which have no keys
  if (!p.has_key_lengths) return invalid("keys in pages need key lengths: has_key_lengths is 0");
  if (p.pages_per_seq < ceil_div(p.seq_k, p.page_size))
    return invalid(name_value("pages_per_seq", p.pages_per_seq) + " is too few for " + name_value("seq_k", p.seq_k));
  if (p.pages_per_seq > 1 && t.block_table.stride[3] != 1)
    return invalid(name_value("block_table.stride[3]", t.block_table.stride[3]) + " is not 1");
  return {};
}

inline Refusal check_switches(const attn_problem& p) {
  const bool fp32 = (p.features & ATTN_FEATURE_F32) != 0;
  if (fp32 ? p.dtype != ATTN_F32 : p.dtype != ATTN_F16 && p.dtype != ATTN_BF16)
    return invalid(name_value("dtype", p.dtype) +
                   (fp32 ? " is not f32, as attn_problem.features says" : " is neither f16 nor bf16"));
  if (!std::isfinite(p.scale)) return invalid("scale is not finite");
  if (!(p.softcap >= 0) || !std::isfinite(p.softcap))
    return invalid("softcap is neither 0 nor positive and finite");
  if (p.align != ATTN_TOP_LEFT && p.align != ATTN_BOTTOM_RIGHT)
    return invalid(name_value("align", p.align) + " is not known");
  if (p.bias_dtype < ATTN_NONE || p.bias_dtype > ATTN_F32)
    return invalid(name_value("bias_dtype", p.bias_dtype) + " is not known");
  const bool sinks = (p.features & ATTN_FEATURE_SINK) != 0;
  if (sinks != (p.has_sink != 0))
    return invalid("has_sink is " + std::to_string(p.has_sink) + ", but attn_problem.features " +
                   (sinks ? "asks for sinks" : "does not ask for sinks"));
  if (p.sink_dtype < ATTN_F16 || p.sink_dtype > ATTN_F32 || (!sinks && p.sink_dtype != 0))
    return invalid(name_value("sink_dtype", p.sink_dtype) + (sinks ? " is not known" : " without sinks"));
  const bool slopes = (p.features & ATTN_FEATURE_ALIBI) != 0;
  if (slopes != (p.has_alibi != 0))
    return invalid("has_alibi is " + std::to_string(p.has_alibi) + ", but attn_problem.features " +
                   (slopes ? "asks for slopes" : "does not ask for slopes"));
  return {};
}

inline Refusal check_kv8(const attn_problem& p) {
  const bool narrow = (p.features & ATTN_FEATURE_KV8) != 0;
  if (narrow ? p.kv_dtype != ATTN_E4M3 && p.kv_dtype != ATTN_E5M2 : p.kv_dtype != 0)
    return invalid(name_value("kv_dtype", p.kv_dtype) +
                   (narrow ? " is neither E4M3 nor E5M2" : ", but attn_problem.features does not ask for 8 bits"));
  if (narrow && (p.features & kOtherOperations) != 0) return invalid("only the forward pass has K and V of 8 bits");
  if (narrow && p.latent) return invalid("K and V of 8 bits have scales of their own: V is not latent");
  return {};
}

// With a latent V, V must be the first columns of K: the same address and strides.
inline Refusal check_latent(const attn_problem& p, const attn_tensors& t) {
  const bool latent = (p.features & ATTN_FEATURE_LATENT) != 0;
  if (latent != (p.latent != 0))
    return invalid("latent is " + std::to_string(p.latent) + ", but attn_problem.features " +
                   (latent ? "asks for a latent V" : "does not ask for a latent V"));
  if (!latent) return {};
  if (p.dim_v > p.dim_qk) return invalid(name_value("dim_v", p.dim_v) + " is more than the columns of K");
  if (t.v.data != t.k.data) return invalid("v is not at the address of k, whose first columns it is");
  const attn_tensors used = strided(p, t);
  for (int i = 0; i < 4; ++i) {
    if (i == 3 && p.dim_v == 1) continue;
    if (used.v.stride[i] != used.k.stride[i]) return invalid("v has not the strides of k, whose first columns it is");
  }
  return {};
}

// Refuses a result that does not lie where its side lies.
inline Refusal check_place(const attn_tensor& result, const attn_tensor& side, const char* what) {
  if (result.data != side.data)
    return invalid(std::string(what) + " is not at the address of the side that it replaces");
  for (int i = 0; i < 4; ++i) {
    if (result.stride[i] != side.stride[i])
      return invalid(std::string(what) + " has not the strides of the side that it replaces");
  }
  return {};
}

// In place, O and LSE must be where the first side is.
inline Refusal check_in_place(const attn_problem& p, const attn_tensors& t) {
  if ((p.features & ATTN_FEATURE_IN_PLACE) == 0) return {};
  if ((p.features & ATTN_FEATURE_MERGE) == 0) return invalid("only a merge is in place");
  const attn_tensors used = strided(p, t);  // without strides of single elements
  if (Refusal refusal = check_place(used.o, used.o1, "o")) return refusal;
  return t.lse.data == nullptr ? Refusal{} : check_place(used.lse, used.lse1, "lse");
}

// A merge may have rows and columns, but nothing that hides keys or changes scores.
inline Refusal check_merge(const attn_problem& p) {
  if ((p.features & ATTN_FEATURE_MERGE) == 0) return {};
  if (p.heads_kv != p.heads_q || p.seq_k != 0 || p.dim_qk != 1)
    return invalid("a merge has heads_kv = heads_q, seq_k = 0 and dim_qk = 1");
  if (p.softcap != 0 || p.causal || p.window_left >= 0 || p.window_right >= 0 || p.has_key_lengths ||
      p.bias_dtype != ATTN_NONE || p.has_mask || p.has_sink || p.has_alibi || p.latent || p.num_splits != 0)
    return invalid(
        "a merge has no softcap, causal order, window, key lengths, bias, mask, sinks, slopes, latent V or splits");
  return {};
}

// True if a field of the problem hides keys, changes scores, or asks for a latent V or splits.
inline bool has_more_than_rows(const attn_problem& p) {
  return p.softcap != 0 || p.causal || p.window_left >= 0 || p.window_right >= 0 || p.bias_dtype != ATTN_NONE ||
         p.has_mask || p.has_sink || p.has_alibi || p.latent || p.num_splits != 0;
}

inline Refusal check_append(const attn_problem& p) {
  if ((p.features & ATTN_FEATURE_APPEND) == 0) return {};
  if ((p.features & kOtherOperations) != ATTN_FEATURE_APPEND) return invalid("a problem asks for two operations");
  if (p.heads_kv != p.heads_q) return invalid("an append has heads_kv = heads_q");
  if (!p.has_key_lengths) return invalid("an append has key lengths");
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) return invalid("the keys of a cache are not packed");
  if (has_more_than_rows(p))
    return invalid("an append has no softcap, causal order, window, bias, mask, sinks, slopes, latent V or splits");
  return {};
}

inline Refusal check_copies(const attn_problem& p, const attn_tensors& t) {
  if ((p.features & ATTN_FEATURE_COPY_PAGES) == 0) return {};
  if ((p.features & kOtherOperations) != ATTN_FEATURE_COPY_PAGES) return invalid("a problem asks for two operations");
  if (p.heads_kv != p.heads_q || p.seq_q != 1 || p.seq_k != 0 || p.pages_per_seq != 0)
    return invalid("a copy of pages has heads_kv = heads_q, seq_q = 1, seq_k = 0 and pages_per_seq = 0");
  if ((p.features & ATTN_FEATURE_PAGED) == 0) return invalid("a copy of pages has no pages");
  if (p.ragged != 0 || p.has_key_lengths) return invalid("a copy of pages has no packed sequences or key lengths");
  if (has_more_than_rows(p))
    return invalid(
        "a copy of pages has no softcap, causal order, window, bias, mask, sinks, slopes, latent V or splits");
  if (t.copies.stride[3] != 1) return invalid(name_value("copies.stride[3]", t.copies.stride[3]) + " is not 1");
  return {};
}

inline Refusal check_backward(const attn_problem& p) {
  constexpr uint64_t kMore = ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;
  if ((p.features & kGradients) == 0)
    return (p.features & kMore) == 0 ? Refusal{} : invalid("only a backward pass has dLSE, dbias or dsink");
  if ((p.features & ATTN_FEATURE_MERGE) != 0) return invalid("a problem asks for two operations");
  if (p.has_alibi || p.latent || p.num_splits != 0)
    return invalid("a backward pass has no slopes, latent V or splits");
  if ((p.has_sink != 0) != ((p.features & ATTN_FEATURE_DSINK) != 0))
    return invalid(p.has_sink ? "a backward pass with sinks needs ATTN_FEATURE_DSINK" : "dsink is wanted of no sinks");
  if ((p.features & ATTN_FEATURE_DBIAS) != 0 && p.bias_dtype == ATTN_NONE)
    return invalid("dbias is wanted of no bias");
  return {};
}

// Checks the fields of lists of blocks, which are read (ATTN_FEATURE_SELECTED and its gradients) or written
// (ATTN_FEATURE_NSA_SELECT, ATTN_FEATURE_NSA_SCORE). Only causal order and key lengths may hide keys.
inline Refusal check_lists(const attn_problem& p) {
  const bool choice = (p.features & kOfChoices) != 0,
             lists = choice || (p.features & kOfLists) != 0;
  for (const auto& [name, value] : {std::pair{"block", p.block}, std::pair{"select", p.select}}) {
    if (lists != (value != 0))
      return invalid(name_value(name, value) + ", but attn_problem.features " +
                     (choice  ? "asks for a choice of blocks"
                      : lists ? "asks for attention over listed blocks"
                              : "asks neither for listed blocks nor for a choice of blocks"));
  }
  if (!lists) return {};
  if (std::popcount(p.features & kOtherOperations) > 1) return invalid("a problem asks for two operations");
  if (p.window_left >= 0 || p.window_right >= 0 || p.bias_dtype != ATTN_NONE || p.has_mask || p.has_sink ||
      p.has_alibi || p.latent || p.num_splits != 0)
    return invalid(std::string(choice ? "a choice of blocks" : "attention over listed blocks") +
                   " has no window, bias, mask, sinks, slopes, latent V or splits");
  return {};
}

// A choice of blocks by given scores (ATTN_FEATURE_NSA_SELECT) has rows of scores, and no Q, K and V. A choice by
// scores that the kernel computes (ATTN_FEATURE_NSA_SCORE) has Q and compressed keys, and no V.
inline Refusal check_choice(const attn_problem& p) {
  if ((p.features & kOfChoices) == 0)
    return p.select_first == 0 && p.select_last == 0
               ? Refusal{}
               : invalid("only a choice of blocks has select_first or select_last");
  if ((p.features & ATTN_FEATURE_NSA_SCORE) != 0) {
    if (p.dim_v != 1 || p.softcap != 0) return invalid("a choice by computed scores has dim_v = 1 and no softcap");
    if (p.page_size != 0 || p.kv_dtype != 0)
      return invalid("a choice by computed scores has no pages and no K of 8 bits");
  } else if (p.heads_kv != p.heads_q || p.dim_qk != 1 || p.dim_v != 1 || p.dtype != ATTN_F16 || p.softcap != 0) {
    return invalid("a choice of blocks has heads_kv = heads_q, dim_qk = dim_v = 1, fp16 and no softcap");
  }
  if (p.select_first + p.select_last > p.select)
    return invalid(name_value("select", p.select) + " is less than select_first + select_last");
  return {};
}

// A combination may have rows and columns only, like a merge.
inline Refusal check_combination(const attn_problem& p) {
  if ((p.features & ATTN_FEATURE_NSA_COMBINE) == 0) return {};
  if (std::popcount(p.features & kOtherOperations) > 1) return invalid("a problem asks for two operations");
  if (p.heads_kv != p.heads_q || p.seq_k != 0 || p.dim_qk != 1)
    return invalid("a combination by gates has heads_kv = heads_q, seq_k = 0 and dim_qk = 1");
  if (has_more_than_rows(p) || p.has_key_lengths || p.ragged != 0)
    return invalid(
        "a combination by gates has no softcap, causal order, window, key lengths, bias, mask, sinks, slopes, latent "
        "V, splits or packed sequences");
  return {};
}

// key_step and key_offset belong to a compression, to a forward pass whose keys stand for blocks, to the gradients of
// such a pass, or to scores of blocks.
inline Refusal check_key_step(const attn_problem& p) {
  constexpr int64_t kMost = int64_t{1} << 16;
  const bool steps = (p.features & ATTN_FEATURE_KEY_STEP) != 0, scores = (p.features & ATTN_FEATURE_NSA_SCORE) != 0,
             compressed = steps || scores || (p.features & ATTN_FEATURE_NSA_COMPRESS) != 0;
  if (compressed != (p.key_step != 0) || (p.key_offset != 0 && !compressed))
    return invalid(name_value("key_step", p.key_step) + " and " + name_value("key_offset", p.key_offset) +
                   ", but attn_problem.features " +
                   (compressed ? "asks for compressed keys" : "does not ask for compressed keys"));
  if (!steps && !scores) return {};
  if (steps && (p.features & kOtherOperations & ~ATTN_FEATURE_BACKWARD) != 0)
    return invalid("only the forward pass and its gradients have keys that stand for blocks");
  if (p.key_step > kMost || p.key_offset > kMost)
    return invalid(name_value("key_step", p.key_step) + " or " + name_value("key_offset", p.key_offset) +
                   (steps ? " of keys that stand for blocks is more than 2^16" : " of scores of blocks is more than 2^16"));
  if (p.has_alibi) return invalid("keys that stand for blocks have no slopes");
  return {};
}

// A compression may have keys, values and key lengths, but nothing else that hides keys.
inline Refusal check_compression(const attn_problem& p) {
  if ((p.features & ATTN_FEATURE_NSA_COMPRESS) == 0) return {};
  if (std::popcount(p.features & kOtherOperations) > 1) return invalid("a problem asks for two operations");
  if (p.heads_kv != p.heads_q) return invalid("a compression of keys has heads_kv = heads_q");
  if (has_more_than_rows(p))
    return invalid(
        "a compression of keys has no softcap, causal order, window, bias, mask, sinks, slopes, latent V or splits");
  return {};
}

// The shape of the stored elements of dbias: 1 in each dimension that is summed.
inline std::array<int64_t, 4> stored_dbias(const attn_problem& p, const attn_tensors& t) {
  std::array<int64_t, 4> shape = {p.batch, p.heads_q, p.seq_q, p.seq_k};
  for (size_t i = 0; i < 3; ++i) {
    if (t.dbias.stride[i] == 0 && shape[i] > 1) shape[i] = 1;
  }
  return shape;
}

// True if an output of the operation overlaps itself; *name is then the output's name.
inline bool output_overlaps(const attn_problem& p, const attn_tensors& t, const char** name) {
  const bool backward = (p.features & kGradients) != 0, caches = (p.features & kOfCaches) != 0,
             choice = (p.features & kOfChoices) != 0, scores = (p.features & ATTN_FEATURE_NSA_SCORE) != 0,
             compression = (p.features & ATTN_FEATURE_NSA_COMPRESS) != 0;
  const bool o = !backward && !caches && !choice && !compression;
  const Rows rows = rows_of_queries(p), keys = rows_of_keys(p);
  const std::array<int64_t, 4> of_o = {rows.entries, p.heads_q, rows.count, p.dim_v};
  const struct {
    const char* name;
    const attn_tensor& tensor;
    bool written;
    std::array<int64_t, 4> shape;
  } outputs[] = {{"o", t.o, o, of_o},
                 {"k", t.k, caches, {keys.entries, p.heads_kv, keys.count, p.dim_qk}},
                 {"v", t.v, caches, {keys.entries, p.heads_kv, keys.count, p.dim_v}},
                 {"lse", t.lse, o && t.lse.data != nullptr, {rows.entries, p.heads_q, rows.count, 1}},
                 {"dq", t.dq, backward, {rows.entries, p.heads_q, rows.count, p.dim_qk}},
                 {"dk", t.dk, backward, {keys.entries, p.heads_kv, keys.count, p.dim_qk}},
                 {"dv", t.dv, backward, {keys.entries, p.heads_kv, keys.count, p.dim_v}},
                 {"dbias", t.dbias, (p.features & ATTN_FEATURE_DBIAS) != 0, stored_dbias(p, t)},
                 {"dsink", t.dsink, (p.features & ATTN_FEATURE_DSINK) != 0, {1, p.heads_q, 1, 1}},
                 {"indices", t.indices, choice, {rows.entries, p.heads_kv, rows.count, p.select}},
                 {"scores", t.scores, scores && t.scores.data != nullptr,
                  {rows.entries, p.heads_kv, rows.count, blocks_of_keys(p)}},
                 {"k_cmp", t.k_cmp, compression, {rows.entries, p.heads_kv, rows.count, p.dim_qk}},
                 {"v_cmp", t.v_cmp, compression, {rows.entries, p.heads_kv, rows.count, p.dim_v}}};
  for (const auto& output : outputs) {
    *name = output.name;
    if (output.written && overlaps(output.tensor, output.shape)) return true;
  }
  return false;
}

inline Refusal check_tensors(const attn_problem& p, const attn_tensors& t) {
  const bool queries = p.batch > 0 && p.heads_q > 0 && p.seq_q > 0 && rows_of_queries(p).count > 0;
  const bool keys = queries && p.seq_k > 0 && rows_of_keys(p).entries > 0 && rows_of_keys(p).count > 0;
  const uintptr_t index = p.index_dtype == ATTN_INDEX_32 ? 4 : 8;
  const bool merge = queries && (p.features & ATTN_FEATURE_MERGE) != 0;
  const bool combination = queries && (p.features & ATTN_FEATURE_NSA_COMBINE) != 0;
  const bool scoring = (p.features & ATTN_FEATURE_NSA_SCORE) != 0;
  const bool choice = (p.features & kOfChoices) != 0;
  const bool compression = (p.features & ATTN_FEATURE_NSA_COMPRESS) != 0;
  const bool backward = (p.features & kGradients) != 0;
  const bool of_keys =
      backward && p.batch > 0 && p.heads_kv > 0 && p.seq_k > 0 && rows_of_keys(p).count > 0;
  const bool rows = queries || of_keys;
  // A query that sees no key still has a part in dsink.
  const bool saved = backward && (keys || (queries && p.has_sink));
  const bool append = (p.features & ATTN_FEATURE_APPEND) != 0, copies = (p.features & ATTN_FEATURE_COPY_PAGES) != 0;
  const bool caches = append || copies, attends = keys && !caches && !choice && !compression;
  // An append of no row, or into a cache without room, has nothing to write.
  const bool written = append ? keys : copies && queries && p.pages > 0;
  const bool scored = keys && scoring;
  const bool needs_values = attends || written || (keys && compression), needs_keys = needs_values || scored;
  const bool of_pairs = p.batch > 0 && p.heads_q > 0 && p.seq_q > 0 && p.seq_k > 0;
  const bool narrow = p.kv_dtype != 0;
  const uintptr_t element = p.dtype == ATTN_F32 ? 4 : 2, of_kv = narrow ? 1 : element;
  const struct {
    const char* name;
    const void* data;
    bool needed;
    uintptr_t align;
  } pointers[] = {{"q", t.q.data, attends || scored, element},
                  {"k", t.k.data, needs_keys, of_kv},
                  {"v", t.v.data, needs_values, of_kv},
                  {"k_new", t.k_new.data, append && written, element},
                  {"v_new", t.v_new.data, append && written, element},
                  {"copies", t.copies.data, copies && written, index},
                  {"o", t.o.data, backward ? saved : queries && !caches && !choice && !compression, element},
                  {"lse", t.lse.data, saved || scored, 4},
                  {"bias", t.bias.data, keys && p.bias_dtype != ATTN_NONE, p.bias_dtype == ATTN_F32 ? 4u : 2u},
                  {"mask", t.mask.data, keys && p.has_mask, 1},
                  {"key_lengths", t.key_lengths, rows && p.has_key_lengths, index},
                  {"cu_q", t.cu_q, rows && (p.ragged & ATTN_RAGGED_QUERIES) != 0, index},
                  {"cu_k", t.cu_k, rows && (p.ragged & ATTN_RAGGED_KEYS) != 0, index},
                  {"block_table", t.block_table.data, keys && p.page_size != 0, index},
                  {"indices", t.indices.data,
                   choice ? queries : keys && (p.features & kOfLists) != 0, index},
                  {"scores", t.scores.data, keys && choice && !scoring, 4},
                  {"sink", t.sink.data, queries && p.has_sink, p.sink_dtype == ATTN_F32 ? 4u : 2u},
                  {"slopes", t.slopes.data, queries && p.has_alibi, 4},
                  {"o1", t.o1.data, merge || combination, element},
                  {"o2", t.o2.data, merge || combination, element},
                  {"o3", t.o3.data, combination, element},
                  {"gates", t.gates.data, combination, element},
                  {"k_cmp", t.k_cmp.data, compression && queries, element},
                  {"v_cmp", t.v_cmp.data, compression && queries, element},
                  {"lse1", t.lse1.data, merge, 4},
                  {"lse2", t.lse2.data, merge, 4},
                  {"dout", t.dout.data, saved, element},
                  {"dlse", t.dlse.data, (p.features & ATTN_FEATURE_DLSE) != 0 && saved, 4},
                  {"dq", t.dq.data, backward && queries, element},
                  {"dk", t.dk.data, of_keys, element},
                  {"dv", t.dv.data, of_keys, element},
                  {"dbias", t.dbias.data, (p.features & ATTN_FEATURE_DBIAS) != 0 && of_pairs,
                   p.bias_dtype == ATTN_F32 ? 4u : 2u},
                  {"dsink", t.dsink.data, (p.features & ATTN_FEATURE_DSINK) != 0 && p.heads_q > 0, 4},
                  {"k_scale", t.k_scale.data, keys && narrow, 4},
                  {"v_scale", t.v_scale.data, keys && narrow, 4}};
  for (const auto& pointer : pointers) {
    if (pointer.needed && pointer.data == nullptr)
      return invalid(std::string(pointer.name) + " is a null pointer");
    if (reinterpret_cast<uintptr_t>(pointer.data) % pointer.align != 0)
      return invalid(std::string(pointer.name) + " is not aligned to its elements");
  }
  const char* name;
  if (!output_overlaps(p, t, &name)) return {};
  return invalid(std::string("the strides of ") + name + " make its elements overlap");
}

}  // namespace plug_in_detail

// Reads a call of any version of the contract into structs of this version. Refuses with ATTN_INVALID calls
// that no kernel could take: contradictory sizes, a missing tensor, an output that overlaps itself, a variant
// that does not exist.
inline Refusal read_call(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                         attn_backend backend, size_t variants, uint64_t features, Call* call) {
  using namespace plug_in_detail;
  if (!attn_read(&call->problem, sizeof call->problem, problem, ATTN_PROBLEM_MIN))
    return invalid("attn_problem is smaller than the first contract's");
  if (!attn_read(&call->tensors, sizeof call->tensors, tensors, ATTN_TENSORS_MIN))
    return invalid("attn_tensors is smaller than the first contract's");
  if (!attn_read(&call->env, sizeof call->env, env, ATTN_ENV_MIN))
    return invalid("attn_env is smaller than the first contract's");
  if (call->problem.features & ~features)
    return {ATTN_UNSUPPORTED, "attn_problem.features asks for what this kernel does not know"};
  if ((features & ATTN_FEATURE_NO_FORWARD) != 0 && (call->problem.features & kOtherOperations) == 0)
    return {ATTN_UNSUPPORTED, "this kernel has no forward pass"};
  if (Refusal refusal = check_sizes(call->problem)) return refusal;
  if (Refusal refusal = check_switches(call->problem)) return refusal;
  if (Refusal refusal = check_ragged(call->problem)) return refusal;
  if (Refusal refusal = check_pages(call->problem, call->tensors)) return refusal;
  if (Refusal refusal = check_kv8(call->problem)) return refusal;
  if (Refusal refusal = check_merge(call->problem)) return refusal;
  if (Refusal refusal = check_backward(call->problem)) return refusal;
  if (Refusal refusal = check_append(call->problem)) return refusal;
  if (Refusal refusal = check_copies(call->problem, call->tensors)) return refusal;
  if (Refusal refusal = check_lists(call->problem)) return refusal;
  if (Refusal refusal = check_choice(call->problem)) return refusal;
  if (Refusal refusal = check_combination(call->problem)) return refusal;
  if (Refusal refusal = check_key_step(call->problem)) return refusal;
  if (Refusal refusal = check_compression(call->problem)) return refusal;
  if (Refusal refusal = check_tensors(call->problem, call->tensors)) return refusal;
  if (Refusal refusal = check_latent(call->problem, call->tensors)) return refusal;
  if (Refusal refusal = check_in_place(call->problem, call->tensors)) return refusal;
  if (call->env.backend != backend)
    return invalid("env.backend is not the back end this kernel was compiled for");
  if (call->env.sm_count <= 0)
    return invalid(name_value("env.sm_count", call->env.sm_count) + " is not positive");
  if (call->env.variant < 0 || static_cast<size_t>(call->env.variant) > variants) {
    return invalid("variant " + std::to_string(call->env.variant) + " is not one of 0.." +
                   std::to_string(variants));
  }
  return {};
}

// Writes a refusal into the caller's buffer and returns its status.
inline attn_status refuse(const Refusal& refusal, char* reason, uint64_t reason_size) {
  if (reason != nullptr && reason_size > 0) snprintf(reason, reason_size, "%s", refusal.reason.c_str());
  return refusal.status;
}

// The plan of a kernel that declares nothing: no splits, as many rescales as keys, no workspace, and the
// loosest error classes. Its tiles are given as 64, so that cases aim at multiples of 64.
inline attn_plan default_plan(const attn_problem& problem) {
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = 64;
  plan.num_splits = 1;
  plan.split_tiles = ceil_div(problem.seq_k, plan.tile_k);
  plan.rescales = problem.seq_k;
  plan.workspace_align = 1;
  return plan;
}

// The plan of plain code: fp32 with fused multiply-add, expf, logf and division, in a fixed order, with the
// maximum known before the sums begin.
inline attn_plan plain_plan(const char* path, int64_t tile, int64_t seq_k) {
  attn_plan plan = {};
  plan.size = sizeof plan;
  snprintf(plan.path, sizeof plan.path, "%s", path);
  plan.tile_q = plan.tile_k = tile;
  plan.num_splits = 1;
  plan.split_tiles = ceil_div(seq_k, tile);
  plan.rescales = 1;
  plan.accumulator = ATTN_ACC_FFMA;
  plan.exp_class = ATTN_EXP_FAST_EXPF;
  plan.log_class = ATTN_LOG_LOGF;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.scale_mode = ATTN_SCALE_SEPARATE;
  plan.p_format = ATTN_FORMAT_F32;
  plan.deterministic = 1;
  plan.workspace_align = 1;
  return plan;
}

namespace plug_in_detail {

// The functions of an attn_kernel. They call K's.
template <class K>
struct Entry {
  static constexpr size_t variants() {
    if constexpr (requires { K::kVariants; }) return K::kVariants.size();
    return 0;
  }
  static constexpr uint64_t features() {
    uint64_t features = 0;
    if constexpr (requires { K::kFeatures; }) features = K::kFeatures;
    // A domain that has fp32 implies ATTN_FEATURE_F32.
    if constexpr (requires { K::kDomain; }) {
      if (K::kDomain != nullptr && (K::kDomain->dtypes >> ATTN_F32 & 1) != 0) features |= ATTN_FEATURE_F32;
    }
    return features;
  }
  static Refusal read(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                      Call* call) {
    return read_call(problem, tensors, env, K::kBackend, variants(), features(), call);
  }

  static attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                          attn_plan* plan, char* reason, uint64_t reason_size) {
    Call call;
    if (Refusal refusal = read(problem, tensors, env, &call)) return refuse(refusal, reason, reason_size);
    attn_plan own = default_plan(call.problem);
    if (Refusal refusal = K::plan(std::as_const(call), &own)) return refuse(refusal, reason, reason_size);
    if (attn_write(plan, &own, sizeof own, ATTN_PLAN_MIN)) return ATTN_OK;
    return refuse(invalid("attn_plan.size leaves no room for a plan"), reason, reason_size);
  }

  template <auto stage>
  static attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                         const attn_env* env) {
    Call call;
    attn_plan known;
    if (Refusal refusal = read(problem, tensors, env, &call)) return refusal.status;
    if (!attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN)) return ATTN_INVALID;
    return stage(call, known);
  }

  static attn_status partials(const attn_problem* problem, const attn_plan* plan, attn_partials* partials) {
    attn_problem p;
    attn_plan known;
    if (!attn_read(&p, sizeof p, problem, ATTN_PROBLEM_MIN) ||
        !attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN))
      return ATTN_INVALID;
    const attn_partials own = K::partials(p, known);
    return attn_write(partials, &own, sizeof own, ATTN_PARTIALS_MIN) ? ATTN_OK : ATTN_INVALID;
  }
};

}  // namespace plug_in_detail

template <class K>
constexpr attn_kernel plug_in() {
  using Entry = plug_in_detail::Entry<K>;
  attn_kernel kernel = {};
  kernel.size = sizeof kernel;
  kernel.abi = ATTN_ABI;
  kernel.name = K::kName;
  kernel.description = K::kDescription;
  kernel.backend = K::kBackend;
  kernel.variant_count = Entry::variants();
  if constexpr (requires { K::kVariants; }) kernel.variants = K::kVariants.data();
  if constexpr (requires { K::kBuild; }) kernel.build = K::kBuild;
  if constexpr (requires { K::kDomain; }) kernel.domain = K::kDomain;
  kernel.plan = Entry::plan;
  kernel.run = Entry::template run<K::run>;
  if constexpr (requires { K::partials; }) {
    kernel.partials = Entry::partials;
    kernel.partial = Entry::template run<K::partial>;
    kernel.reduce = Entry::template run<K::reduce>;
  }
  kernel.features = Entry::features();
  return kernel;
}

}  // namespace attn
