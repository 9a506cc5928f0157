#include "properties/case/as_contract.h"

namespace attnfuzz {

attn_problem problem_of(const Problem& p) {
  attn_problem out = {};
  out.size = sizeof out;
  out.dtype = p.dtype;
  out.batch = p.batch;
  out.heads_q = p.heads_q;
  out.heads_kv = p.heads_kv;
  out.seq_q = p.seq_q;
  out.seq_k = p.seq_k;
  out.dim_qk = p.dim_qk;
  out.dim_v = p.dim_v;
  out.scale = p.scale;
  out.softcap = p.softcap;
  out.causal = p.causal;
  out.align = p.align;
  out.window_left = p.window_left;
  out.window_right = p.window_right;
  out.has_key_lengths = p.key_lengths.has_value();
  out.bias_dtype = p.bias ? p.bias->dtype : ATTN_NONE;
  out.has_mask = p.mask.has_value();
  out.num_splits = p.num_splits;
  out.features = p.features;
  if (p.dtype == ATTN_F32) out.features |= ATTN_FEATURE_F32;
  return out;
}

attn_env env_of(const Environment& from) {
  attn_env env = {};
  env.size = sizeof env;
  env.backend = ATTN_CPU;
  env.sm_count = from.sm_count;
  env.compute_capability = from.compute_capability;
  env.shared_memory_limit = from.shared_memory_limit;
  env.schedule_seed = from.schedule_seed;
  env.variant = from.variant;
  env.arithmetic = from.arithmetic;
  return env;
}

}  // namespace attnfuzz
