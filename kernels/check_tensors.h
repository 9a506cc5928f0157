// Checks the tensors of a call (read_call.h): those that an operation needs are there and aligned, and no output
// overlaps itself.
#pragma once

#include <stdint.h>

#include <array>
#include <string>

#include "kernels/call.h"

namespace attn {
namespace plug_in_detail {

// The shape of the stored elements of dbias: 1 in each dimension that is summed.
inline std::array<int64_t, 4> stored_dbias(const attn_problem& p, const attn_tensors& t) {
  std::array<int64_t, 4> shape = {p.batch, p.heads_q, p.seq_q, p.seq_k};
  for (size_t i = 0; i < 3; ++i) {
    if (t.dbias.stride[i] == 0 && shape[i] > 1) shape[i] = 1;
  }
  return shape;
}

// The name of the first output of the operation that overlaps itself; null if none does.
inline const char* overlapping_output(const attn_problem& p, const attn_tensors& t) {
  const bool backward = (p.features & kGradients) != 0, caches = (p.features & kOfCaches) != 0,
             choice = (p.features & kOfChoices) != 0, scores = (p.features & ATTN_FEATURE_NSA_SCORE) != 0,
             compression = (p.features & ATTN_FEATURE_NSA_COMPRESS) != 0;
  const bool o = !backward && !caches && !choice && !compression;
  const struct {
    const char* name;
    const attn_tensor* tensor;
    bool written;
  } outputs[] = {{"o", &t.o, o},
                 {"k", &t.k, caches},
                 {"v", &t.v, caches},
                 {"lse", &t.lse, o && t.lse.data != nullptr},
                 {"dq", &t.dq, backward},
                 {"dk", &t.dk, backward},
                 {"dv", &t.dv, backward},
                 {"dbias", &t.dbias, (p.features & ATTN_FEATURE_DBIAS) != 0},
                 {"dsink", &t.dsink, (p.features & ATTN_FEATURE_DSINK) != 0},
                 {"indices", &t.indices, choice},
                 {"scores", &t.scores, scores && t.scores.data != nullptr},
                 {"k_cmp", &t.k_cmp, compression},
                 {"v_cmp", &t.v_cmp, compression}};
  const char* name = nullptr;
  each_tensor(p, t, [&](const attn_tensor& tensor, const std::array<int64_t, 4>& shape) {
    if (name != nullptr) return;
    for (const auto& output : outputs) {
      if (output.tensor == &tensor && output.written && overlaps(tensor, &tensor == &t.dbias ? stored_dbias(p, t) : shape))
        name = output.name;
    }
  });
  return name;
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
  const char* name = overlapping_output(p, t);
  return name == nullptr ? Refusal{} : invalid(std::string("the strides of ") + name + " make its elements overlap");
}

}  // namespace plug_in_detail
}  // namespace attn
