#include "tests/kernels/call.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace attnfuzz {

namespace {

void fill(Tensor& tensor, bool is_mask, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  tensor.for_each([&](const Index& at) { tensor.set(at, is_mask ? random() % 4 != 0 : normal(random)); });
}

}  // namespace

attn_problem square(int64_t length, int64_t dim) {
  attn_problem p = {};
  p.batch = p.heads_q = p.heads_kv = 1;
  p.seq_q = p.seq_k = length;
  p.dim_qk = p.dim_v = dim;
  p.scale = 1.0f / std::sqrt(static_cast<float>(dim));
  p.causal = 1;
  p.window_left = p.window_right = -1;
  p.bias_dtype = ATTN_NONE;
  return p;
}

Call::Call(const attn_problem& asked) : problem(asked) {
  problem.size = sizeof(attn_problem);
  tensors.size = sizeof(attn_tensors);
  env.size = sizeof(attn_env);
  plan.size = sizeof(attn_plan);
  env.sm_count = 132;
  env.compute_capability = 90;
  env.shared_memory_limit = 232448;
  env.variant = 1;
  env.report = [](void* user, const attn_report* report) {
    static_cast<Call*>(user)->report_ = std::string(report->message) + " at " +
                                        (report->file ? report->file : "?") + ":" +
                                        std::to_string(report->line);
  };
  const attn_problem& p = problem;
  q = Tensor(p.dtype, {p.batch, p.heads_q, p.seq_q, p.dim_qk});
  k = Tensor(p.dtype, {p.batch, p.heads_kv, p.seq_k, p.dim_qk});
  v = Tensor(p.dtype, {p.batch, p.heads_kv, p.seq_k, p.dim_v});
  o = Tensor(p.dtype, {p.batch, p.heads_q, p.seq_q, p.dim_v});
  lse = Tensor(ATTN_F32, {p.batch, p.heads_q, p.seq_q, 1});
  if (p.bias_dtype != ATTN_NONE) bias = Tensor(p.bias_dtype, {p.batch, p.heads_q, p.seq_q, p.seq_k});
  if (p.has_mask) mask = Tensor(ATTN_NONE, {p.batch, p.heads_q, p.seq_q, p.seq_k});
  unsigned seed = 0;
  for (Tensor Call::*tensor : {&Call::q, &Call::k, &Call::v, &Call::bias, &Call::mask}) {
    fill(this->*tensor, tensor == &Call::mask, ++seed);
  }
}

void Call::lay_out(Tensor Call::*which, const Index& strides) {
  this->*which = (this->*which).at_strides(strides);
  if (which != &Call::o && which != &Call::lse) fill(this->*which, which == &Call::mask, 11);
}

double Call::worst_ratio(const attn_kernel& kernel) {
  env.user = this;
  o.clear();
  lse.clear();
  tensors.q = q.view(), tensors.k = k.view(), tensors.v = v.view();
  tensors.o = o.view(), tensors.lse = lse.view();
  if (problem.bias_dtype != ATTN_NONE) tensors.bias = bias.view();
  if (problem.has_mask) tensors.mask = mask.view();
  if (problem.has_key_lengths) tensors.key_lengths = key_lengths.data();

  char reason[256] = "";
  EXPECT_EQ(kernel.plan(&problem, &tensors, &env, &plan, reason, sizeof reason), ATTN_OK) << reason;
  std::vector<double> workspace(plan.workspace_bytes / 8 + 2, NAN);
  tensors.workspace = workspace.data();
  tensors.workspace_bytes = plan.workspace_bytes;
  EXPECT_EQ(kernel.run(&problem, &tensors, &plan, &env), ATTN_OK) << report_;
  EXPECT_TRUE(o.gaps_untouched()) << "written between the elements of O";
  EXPECT_TRUE(lse.gaps_untouched()) << "written between the elements of LSE";

  reference = evaluate(problem, tensors, plan, executor());
  double worst = 0;
  int64_t row = 0;
  lse.for_each([&](const Index& at) {
    worst = std::max(worst, reference[TensorId::kLse].ratio(row, 0, static_cast<float>(lse.get(at))));
    for (int64_t c = 0; c < problem.dim_v; ++c) {
      const double value = o.get({at[0], at[1], at[2], c});
      worst = std::max(worst, reference[TensorId::kO].ratio(row, c, static_cast<float>(value)));
    }
    ++row;
  });
  return worst;
}

}  // namespace attnfuzz
