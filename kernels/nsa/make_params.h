// Makes the parameters of the kernels nsa, nsa_select and nsa_backward from a call.
#pragma once

#include <algorithm>

#include "kernels/nsa/selected.h"
#include "kernels/plug_in.h"

namespace attn::nsa {

// The most keys that a block can have: block, or seq_k if that is less, but at least 1.
inline int64_t span_of(const attn_problem& p) { return std::max<int64_t>(std::min(p.block, p.seq_k), 1); }

inline SelectedParams make_params(const Call& call) {
  const attn_problem& a = call.problem;
  const attn_tensors t = strided(a, call.tensors);
  SelectedParams p = {};
  p.q = t.q, p.k = t.k, p.v = t.v, p.o = t.o, p.lse = t.lse, p.indices = t.indices;
  p.key_lengths = a.has_key_lengths ? t.key_lengths : nullptr;
  p.cu_q = (a.ragged & ATTN_RAGGED_QUERIES) != 0 ? t.cu_q : nullptr;
  p.cu_k = (a.ragged & ATTN_RAGGED_KEYS) != 0 ? t.cu_k : nullptr;
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

}  // namespace attn::nsa
