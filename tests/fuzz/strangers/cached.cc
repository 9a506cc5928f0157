// Kernels that return the answer of an earlier call that looked the same.
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

void add(std::string& key, const void* bytes, size_t n) { key.append(static_cast<const char*>(bytes), n); }

std::string shape_of(const attn_problem* p, const attn_tensors* t) {
  std::string key;
  for (const int64_t n : {p->batch, p->heads_q, p->heads_kv, p->seq_q, p->seq_k, p->dim_qk, p->dim_v})
    add(key, &n, 8);
  for (const attn_tensor* x : {&t->o, &t->lse})
    add(key, x->stride, sizeof x->stride), key += x->data ? 'd' : '-';
  add(key, &p->dtype, 4);
  return key;
}

// Adds elements 0, step, ... of a tensor's first rows to the key.
void sample(std::string& key, const attn_tensor& x, int64_t rows, int64_t columns, int64_t step) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; c += step)
      add(key, static_cast<const uint16_t*>(x.data) + r * x.stride[2] + c * x.stride[3], 2);
  }
}

// Calls each(address, bytes) for every element of O and LSE, so that a kernel can save or restore them.
template <class Each>
void outputs(const attn_problem* p, const attn_tensors* t, const Each& each) {
  for (int64_t b = 0; b < p->batch; ++b) {
    for (int64_t h = 0; h < p->heads_q; ++h) {
      for (int64_t s = 0; s < p->seq_q; ++s) {
        for (int64_t d = 0; d < p->dim_v; ++d)
          each(static_cast<char*>(t->o.data) +
                   2 * (b * t->o.stride[0] + h * t->o.stride[1] + s * t->o.stride[2] + d * t->o.stride[3]),
               2);
        if (t->lse.data != nullptr)
          each(static_cast<char*>(t->lse.data) +
                   4 * (b * t->lse.stride[0] + h * t->lse.stride[1] + s * t->lse.stride[2]),
               4);
      }
    }
  }
}

attn_status cached(const std::string& key, const attn_problem* p, const attn_tensors* t, const attn_plan* plan,
                   const attn_env* env) {
  static std::map<std::string, std::string> known;
  if (const auto hit = known.find(key); hit != known.end()) {
    size_t at = 0;
    outputs(p, t, [&](char* to, size_t n) { std::memcpy(to, hit->second.data() + at, n), at += n; });
    return ATTN_OK;
  }
  compute(p, t, plan, env);
  outputs(p, t, [&](const char* from, size_t n) { add(known[key], from, n); });
  return ATTN_OK;
}

STRANGER(by_shape, "cached-by-shape") { return cached(shape_of(p, t), p, t, plan, env); }

STRANGER(by_pointer, "cached-by-pointer") {
  std::string key = shape_of(p, t);
  for (const attn_tensor* x : {&t->q, &t->k, &t->v, &t->o}) add(key, &x->data, sizeof x->data);
  return cached(key, p, t, plan, env);
}

// The key has only a few elements of each input.
STRANGER(by_sample, "cached-by-sample") {
  std::string key = shape_of(p, t);
  add(key, &p->scale, 4), add(key, &p->causal, 4);
  if (p->batch > 0 && p->seq_q > 0) sample(key, t->q, 1, p->dim_qk, 8);
  if (p->batch > 0 && p->seq_k > 0) sample(key, t->k, 1, p->dim_qk, 8), sample(key, t->v, 1, p->dim_v, 8);
  return cached(key, p, t, plan, env);
}

// The key has all of Q, and assumes that K and V are unchanged.
STRANGER(by_queries, "cached-by-queries") {
  std::string key = shape_of(p, t);
  add(key, &p->scale, 4), add(key, &p->causal, 4), add(key, &p->softcap, 4);
  if (p->batch > 0) sample(key, t->q, p->seq_q, p->dim_qk, 1);
  return cached(key, p, t, plan, env);
}

// If the call is the same as the last, its outputs are assumed to be still there.
STRANGER(second_skipped, "second-skipped") {
  static std::string last;
  std::string key = shape_of(p, t);
  for (const attn_tensor* x : {&t->q, &t->k, &t->v, &t->o}) add(key, &x->data, sizeof x->data);
  if (p->batch > 0 && p->seq_q > 0) sample(key, t->q, p->seq_q, p->dim_qk, 1);
  if (key == last) return ATTN_OK;
  last = key;
  return compute(p, t, plan, env);
}

}  // namespace
}  // namespace stranger
