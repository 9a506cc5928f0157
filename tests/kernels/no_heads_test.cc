// Tests a call without query heads. It has no output, so all pointers may be null.
#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

TEST(NsaScore, WritesNothingWithoutQueryHeads) {
  const attn_kernel* kernel = kernel_named("nsa_score");
  ASSERT_NE(kernel, nullptr);
  Offer x;
  attn_problem& p = x.problem;
  p.features = ATTN_FEATURE_NSA_SCORE;
  p.heads_q = 0, p.seq_q = 1, p.seq_k = 0, p.dim_v = 1;
  p.key_step = 1, p.block = p.select = 1;
  x.env.variant = 0;
  x.tensors = {};
  x.tensors.size = sizeof x.tensors;
  attn_plan plan = {};
  plan.size = sizeof plan;
  char reason[256] = {};
  ASSERT_EQ(kernel->plan(&p, &x.tensors, &x.env, &plan, reason, sizeof reason), ATTN_OK) << reason;
  EXPECT_EQ(kernel->run(&p, &x.tensors, &plan, &x.env), ATTN_OK);
}

}  // namespace
}  // namespace attnfuzz
