// Makes the kernels' parameters from a checked problem. D of each query goes to the start of the workspace.
#pragma once

#include <algorithm>

#include "kernels/fa1_backward/tiles.h"
#include "kernels/plug_in.h"

namespace attn::backward {

inline Params make_params(const Call& call) {
  const attn_problem& a = call.problem;
  const attn_tensors t = strided(a, call.tensors);
  Params p = {};
  ForwardParams& f = p.forward;
  f.q = t.q, f.k = t.k, f.v = t.v, f.o = t.o, f.lse = t.lse, f.bias = t.bias, f.mask = t.mask;
  f.key_lengths = a.has_key_lengths ? t.key_lengths : nullptr;
  f.batch = a.batch, f.heads_q = a.heads_q, f.seq_q = a.seq_q, f.seq_k = a.seq_k;
  f.dim_qk = static_cast<int32_t>(a.dim_qk), f.dim_v = static_cast<int32_t>(a.dim_v);
  f.group = a.heads_kv == 0 ? 1 : static_cast<int32_t>(a.heads_q / a.heads_kv);
  f.left = a.window_left < 0 ? kFar : std::min(a.window_left, kFar);
  f.right = a.window_right < 0 ? kFar : std::min(a.window_right, kFar);
  if (a.causal) f.right = 0;
  f.bottom_right = a.align == ATTN_BOTTOM_RIGHT;
  f.has_mask = a.has_mask != 0;
  f.ragged = {(a.ragged & ATTN_RAGGED_QUERIES) != 0 ? t.cu_q : nullptr,
              (a.ragged & ATTN_RAGGED_KEYS) != 0 ? t.cu_k : nullptr, a.index_dtype == ATTN_INDEX_32};
  if (a.has_sink) f.sinks = {t.sink.data, t.sink.stride[1], a.sink_dtype};
  f.bias_dtype = a.bias_dtype;
  if (a.key_step != 0) f.blocks = {a.key_step, a.key_offset};
  f.scale = a.scale, f.softcap = a.softcap;
  p.dout = t.dout, p.dq = t.dq, p.dk = t.dk, p.dv = t.dv;
  if ((a.features & ATTN_FEATURE_DLSE) != 0) p.dlse = t.dlse;
  p.dbias = t.dbias, p.dsink = t.dsink;
  p.heads_kv = a.heads_kv;
  p.inverse_cap = a.softcap > 0 ? 1.0f / a.softcap : 0.0f;
  p.delta = static_cast<float*>(t.workspace);
  p.delta_rows = a.seq_q;
  return p;
}

}  // namespace attn::backward
