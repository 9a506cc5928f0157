// Reads a call of any version of the contract, and refuses what no kernel could take.
//
//   attn::Call call;
//   if (attn::Refusal refusal = attn::read_call(problem, tensors, env, ATTN_CPU, 0, features, &call)) ...
#pragma once

#include <stdint.h>

#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/check_tensors.h"

namespace attn {
namespace plug_in_detail {

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

// True if a field of the problem hides keys, changes scores, or asks for a latent V or splits.
inline bool has_more_than_rows(const attn_problem& p) {
  return p.softcap != 0 || p.causal || p.window_left >= 0 || p.window_right >= 0 || p.bias_dtype != ATTN_NONE ||
         p.has_mask || p.has_sink || p.has_alibi || p.latent || p.num_splits != 0;
}
inline Refusal check_only_rows(const attn_problem& p, const char* what) {
  if (!has_more_than_rows(p)) return {};
  return invalid(std::string(what) +
                 " has no softcap, causal order, window, bias, mask, sinks, slopes, latent V or splits");
}

// A merge may have rows and columns, but nothing that hides keys or changes scores.
inline Refusal check_merge(const attn_problem& p) {
  if ((p.features & ATTN_FEATURE_MERGE) == 0) return {};
  if (p.heads_kv != p.heads_q || p.seq_k != 0 || p.dim_qk != 1)
    return invalid("a merge has heads_kv = heads_q, seq_k = 0 and dim_qk = 1");
  if (has_more_than_rows(p) || p.has_key_lengths)
    return invalid(
        "a merge has no softcap, causal order, window, key lengths, bias, mask, sinks, slopes, latent V or splits");
  return {};
}

inline Refusal check_append(const attn_problem& p) {
  if ((p.features & ATTN_FEATURE_APPEND) == 0) return {};
  if (p.heads_kv != p.heads_q) return invalid("an append has heads_kv = heads_q");
  if (!p.has_key_lengths) return invalid("an append has key lengths");
  if ((p.ragged & ATTN_RAGGED_KEYS) != 0) return invalid("the keys of a cache are not packed");
  return check_only_rows(p, "an append");
}

inline Refusal check_copies(const attn_problem& p, const attn_tensors& t) {
  if ((p.features & ATTN_FEATURE_COPY_PAGES) == 0) return {};
  if (p.heads_kv != p.heads_q || p.seq_q != 1 || p.seq_k != 0 || p.pages_per_seq != 0)
    return invalid("a copy of pages has heads_kv = heads_q, seq_q = 1, seq_k = 0 and pages_per_seq = 0");
  if ((p.features & ATTN_FEATURE_PAGED) == 0) return invalid("a copy of pages has no pages");
  if (p.ragged != 0 || p.has_key_lengths) return invalid("a copy of pages has no packed sequences or key lengths");
  if (Refusal refusal = check_only_rows(p, "a copy of pages")) return refusal;
  if (t.copies.stride[3] != 1) return invalid(name_value("copies.stride[3]", t.copies.stride[3]) + " is not 1");
  return {};
}

inline Refusal check_backward(const attn_problem& p) {
  constexpr uint64_t kMore = ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;
  if ((p.features & kGradients) == 0)
    return (p.features & kMore) == 0 ? Refusal{} : invalid("only a backward pass has dLSE, dbias or dsink");
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
  if (p.heads_kv != p.heads_q) return invalid("a compression of keys has heads_kv = heads_q");
  return check_only_rows(p, "a compression of keys");
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
  if (std::popcount(call->problem.features & kOtherOperations) > 1) return invalid("a problem asks for two operations");
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

}  // namespace attn
