// Attention in plain C++, for plug-ins of several versions of the contract: fp16,
// head dimensions to 64, no mask of any kind.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/attention.h"

namespace forward {

inline const char* unsupported(const attn_problem& p) {
  if (p.dtype != ATTN_F16) return "fp16 alone";
  if (p.dim_qk > 64 || p.dim_v > 64) return "head dimensions above 64";
  if (p.causal || p.window_left >= 0 || p.window_right >= 0 || p.has_key_lengths || p.has_mask ||
      p.bias_dtype != ATTN_NONE || p.softcap != 0)
    return "anything but plain attention";
  return nullptr;
}

template <class T>
T* row(const attn_tensor& x, int64_t b, int64_t h, int64_t i) {
  return static_cast<T*>(x.data) + b * x.stride[0] + h * x.stride[1] + i * x.stride[2];
}

inline void attend(const attn_problem& p, const attn_tensors& t, int64_t b, int64_t h, int64_t i) {
  using Half = _Float16;
  const int64_t kv = h / (p.heads_q / p.heads_kv);
  const Half* q = row<Half>(t.q, b, h, i);
  const auto score = [&](int64_t j) {
    const Half* k = row<Half>(t.k, b, kv, j);
    float sum = 0;
    for (int64_t d = 0; d < p.dim_qk; ++d)
      sum += static_cast<float>(q[d * t.q.stride[3]]) * static_cast<float>(k[d * t.k.stride[3]]);
    return sum * p.scale;
  };
  float max = -INFINITY, sum = 0, o[64] = {};
  for (int64_t j = 0; j < p.seq_k; ++j) max = std::fmax(max, score(j));
  for (int64_t j = 0; j < p.seq_k; ++j) {
    const float weight = std::exp(score(j) - max);
    const Half* v = row<Half>(t.v, b, kv, j);
    sum += weight;
    for (int64_t d = 0; d < p.dim_v; ++d) o[d] += weight * static_cast<float>(v[d * t.v.stride[3]]);
  }
  Half* out = row<Half>(t.o, b, h, i);
  for (int64_t d = 0; d < p.dim_v; ++d)
    out[d * t.o.stride[3]] = static_cast<Half>(sum == 0 ? 0.0f : o[d] / sum);
  if (t.lse.data != nullptr) *row<float>(t.lse, b, h, i) = sum == 0 ? -INFINITY : max + std::log(sum);
}

inline void attend(const attn_problem& p, const attn_tensors& t) {
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads_q; ++h) {
      for (int64_t i = 0; i < p.seq_q; ++i) attend(p, t, b, h, i);
    }
  }
}

}  // namespace forward
