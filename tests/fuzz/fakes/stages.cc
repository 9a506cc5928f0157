// A kernel with stages. num_splits of the plan chooses what partials() answers.
#include "tests/fuzz/fakes/fake.h"

namespace {

constexpr int64_t kRight = 2;  // each other number of splits gives another wrong answer

attn_status partials(const attn_problem* p, const attn_plan* plan, attn_partials* out) {
  out->num_splits = plan->num_splits;
  out->o_offset = 0;
  const int64_t rows = p->batch * p->heads_q * p->seq_q;
  out->o_stride[3] = p->dim_v;
  out->o_stride[2] = p->seq_q * p->dim_v;
  out->o_stride[1] = p->heads_q * p->seq_q * p->dim_v;
  out->o_stride[0] = rows * p->dim_v;
  out->lse_offset = static_cast<uint64_t>(plan->num_splits * rows * p->dim_v) * 4;
  out->lse_stride[3] = 1;
  out->lse_stride[2] = p->seq_q;
  out->lse_stride[1] = p->heads_q * p->seq_q;
  out->lse_stride[0] = rows;
  if (plan->num_splits == kRight + 1) out->o_stride[1] = int64_t{1} << 60;
  if (plan->num_splits == kRight + 2) out->lse_offset += 4;
  if (plan->num_splits == kRight + 3) out->o_stride[0] = -1;
  if (plan->num_splits == kRight + 4) return ATTN_INVALID;
  if (plan->num_splits == kRight + 5) __builtin_trap();
  return ATTN_OK;
}

const attn_kernel kernel = [] {
  attn_kernel k = fake::kernel("stages", fake::yes, fake::nothing);
  k.partials = partials;
  k.partial = fake::nothing;
  k.reduce = [](const attn_problem*, const attn_tensors*, const attn_plan*, const attn_env*) {
    return ATTN_LAUNCH_FAILED;
  };
  return k;
}();

}  // namespace

extern "C" const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &kernel : nullptr; }
