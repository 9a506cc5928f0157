// The list of the library's kernels, and its honest kernels.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/plug_in.h"
#include "tests/fuzz/strangers/stranger.h"
#include "tests/properties/support/fake_attention.h"

namespace stranger {
namespace {

std::vector<attn_kernel>& kernels() {
  static std::vector<attn_kernel> all;
  return all;
}

template <class Write>
void each_element(const attn_tensor& t, int64_t b, int64_t h, int64_t s, int64_t d, const Write& write) {
  for (int64_t i = 0; i < b; ++i) {
    for (int64_t j = 0; j < h; ++j) {
      for (int64_t k = 0; k < s; ++k) {
        for (int64_t l = 0; l < d; ++l)
          write(i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3]);
      }
    }
  }
}

}  // namespace

Kernel::Kernel(const char* name, Run run, Plan plan) {
  attn_kernel k = {};
  k.size = sizeof k;
  k.abi = ATTN_ABI;
  k.name = name;
  k.description = "not to be trusted";
  k.backend = ATTN_CPU;
  k.plan = plan != nullptr ? plan : stranger::plan;
  k.run = run;
  kernels().push_back(k);
}

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* out,
                 char* reason, uint64_t size) {
  attn::Call call;
  if (attn::Refusal refusal = attn::read_call(problem, tensors, env, ATTN_CPU, 0, 0, &call))
    return attn::refuse(refusal, reason, size);
  const attn_problem& p = call.problem;
  attn_plan plan = attn::default_plan(p);
  constexpr int64_t kTile = 16;
  plan.accumulator = ATTN_ACC_FFMA;
  plan.tile_q = plan.tile_k = kTile;
  plan.num_splits = plan.merges = 1;
  plan.split_tiles = plan.rescales = std::max<int64_t>(1, (p.seq_k + kTile - 1) / kTile);
  plan.exp_class = ATTN_EXP_EXPF;
  plan.log_class = ATTN_LOG_LOGF;
  plan.rcp_class = ATTN_RCP_EXACT;
  plan.tanh_class = ATTN_TANH_TANHF;
  plan.scale_mode = ATTN_SCALE_SEPARATE;
  plan.p_format = plan.partial_format = ATTN_FORMAT_F32;
  plan.isolates_masked_nan = plan.deterministic = 1;
  plan.workspace_bytes =
      attnfuzz::fake_lse_offset(p, 1) + 4ull * static_cast<uint64_t>(p.batch * p.heads_q * p.seq_q);
  plan.workspace_align = 64;
  return attn_write(out, &plan, sizeof plan, ATTN_PLAN_MIN) ? ATTN_OK : ATTN_INVALID;
}

attn_status compute(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env*) {
  attnfuzz::fake_partial(attnfuzz::Flaw::kNone, *p, *t, *plan);
  attnfuzz::fake_reduce(attnfuzz::Flaw::kNone, *p, *t, *plan);
  return ATTN_OK;
}

attn_status cheap(const attn_problem* p, const attn_tensors* t) {
  each_element(t->o, p->batch, p->heads_q, p->seq_q, p->dim_v,
               [&](int64_t at) { static_cast<uint16_t*>(t->o.data)[at] = 0; });
  if (t->lse.data != nullptr) {
    each_element(t->lse, p->batch, p->heads_q, p->seq_q, 1,
                 [&](int64_t at) { static_cast<float*>(t->lse.data)[at] = 0; });
  }
  return ATTN_OK;
}

bool now() {
  static int calls = 0;
  return ++calls > 5;
}

namespace {

const Kernel honest{"honest", compute};

}  // namespace
}  // namespace stranger

const attn_kernel* attn_kernel_at(uint32_t index) {
  return index < stranger::kernels().size() ? &stranger::kernels()[index] : nullptr;
}
