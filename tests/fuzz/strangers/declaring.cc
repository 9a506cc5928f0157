// Kernels whose plans excuse their errors, and kernels that refuse nearly everything.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <vector>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

// Rounds O to this number of mantissa bits.
void round_outputs(const attn_problem* p, const attn_tensors* t, int bits) {
  const int mantissa = p->dtype == ATTN_F16 ? 10 : 7, dropped = mantissa - bits;
  if (dropped <= 0) return;
  for (int64_t b = 0; b < p->batch; ++b) {
    for (int64_t h = 0; h < p->heads_q; ++h) {
      for (int64_t s = 0; s < p->seq_q; ++s) {
        for (int64_t d = 0; d < p->dim_v; ++d) {
          uint16_t& x = static_cast<uint16_t*>(
              t->o.data)[b * t->o.stride[0] + h * t->o.stride[1] + s * t->o.stride[2] + d * t->o.stride[3]];
          x = static_cast<uint16_t>(x >> dropped << dropped);
        }
      }
    }
  }
}

template <int bits>
attn_status rounded(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  compute(p, t, plan, env);
  round_outputs(p, t, bits);
  return ATTN_OK;
}

template <void (*declare)(attn_plan& plan)>
attn_status loose(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out,
                  char* reason, uint64_t size) {
  const attn_status status = stranger::plan(p, t, env, out, reason, size);
  if (status == ATTN_OK) declare(*out);
  return status;
}

// A kernel that rounds O to `bits` bits. The block that follows changes its plan.
#define STRANGER_SAYS(function, name, bits)                             \
  void function(attn_plan& x);                                          \
  const Kernel function##_kernel{name, rounded<bits>, loose<function>}; \
  void function(attn_plan& x)

STRANGER_SAYS(merges, "says-merges", 5) { x.merges = 100'000, x.p_format = x.partial_format = 0; }

STRANGER_SAYS(rescales, "says-rescales", 4) { x.rescales = 1 << 30; }

STRANGER_SAYS(exponential, "says-exponential", 3) { x.exp_error = 0.24f; }

STRANGER_SAYS(eight_bits, "says-8-bit", 3) { x.p_format = x.v_format = ATTN_FORMAT_E5M2; }

STRANGER_SAYS(scaled, "says-scaled-p", 3) { x.p_format = ATTN_FORMAT_OF_INPUT, x.p_scale = 0x1p-20f; }

STRANGER_SAYS(scaled_up, "says-overflow", 3) { x.p_format = ATTN_FORMAT_OF_INPUT, x.p_scale = 0x1p50f; }

// Wrong beyond 64 keys; its plan declares tiles of 8, so draws are aimed at short lengths.
attn_status beyond(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  compute(p, t, plan, env);
  if (p->seq_k > 64) round_outputs(p, t, 4);
  return ATTN_OK;
}
void small_tiles(attn_plan& x) { x.tile_q = x.tile_k = 8; }
const Kernel small{"says-small-tiles", beyond, loose<small_tiles>};

template <bool (*takes)(const attn_problem& p)>
attn_status only(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out,
                 char* reason, uint64_t size) {
  const attn_status status = stranger::plan(p, t, env, out, reason, size);
  if (status != ATTN_OK || takes(*p)) return status;
  strncpy(reason, "not today", size);
  return ATTN_UNSUPPORTED;
}
const Kernel refuses{"refuses-all", rounded<3>, only<[](const attn_problem&) { return false; }>};
const Kernel refuses_most{"refuses-most", compute,
                          only<[](const attn_problem& p) { return p.seq_k == 2 || p.seq_k == 3; }>};

// Takes all that it is asked about before the check. Once it has run, it takes only tensors that are dense.
bool has_run = false;
attn_status runs(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  has_run = true;
  return compute(p, t, plan, env);
}
attn_status only_dense(const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* out,
                       char* reason, uint64_t size) {
  const attn_status status = stranger::plan(p, t, env, out, reason, size);
  const auto dense = [](const attn_tensor& x, int64_t heads, int64_t rows, int64_t dim) {
    return x.stride[3] == 1 && x.stride[2] == dim && x.stride[1] == rows * dim &&
           x.stride[0] == heads * rows * dim;
  };
  if (status != ATTN_OK || !has_run ||
      (dense(t->q, p->heads_q, p->seq_q, p->dim_qk) && dense(t->k, p->heads_kv, p->seq_k, p->dim_qk) &&
       dense(t->v, p->heads_kv, p->seq_k, p->dim_v) && dense(t->o, p->heads_q, p->seq_q, p->dim_v)))
    return status;
  strncpy(reason, "strides, not today", size);
  return ATTN_UNSUPPORTED;
}
const Kernel refuses_strides{"refuses-strides", runs, only_dense};

}  // namespace
}  // namespace stranger
