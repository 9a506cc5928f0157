// Tests more splits than a warp has lanes, all with keys: the reduction loops more than
// once, and no split may be lost.
#include "tests/kernels/call.h"

namespace attnfuzz {
namespace {

class Splits : public OfKernel {};

attn_problem many(int64_t splits) {
  attn_problem p = square(2, 8);
  p.causal = 0;
  p.seq_k = splits * 64;
  p.num_splits = splits;
  p.bias_dtype = ATTN_F32;
  return p;
}

TEST_P(Splits, NoneIsLost) {
  for (int64_t splits : {31, 32, 33, 40, 64, 65}) {
    SCOPED_TRACE("splits " + std::to_string(splits));
    Call call(many(splits));
    holds(call);
    EXPECT_EQ(call.plan.num_splits, splits);
  }
}

// One split outweighs the others by more than fp32 can represent, so the maximum must be taken from it.
TEST_P(Splits, OneOutweighsTheOthers) {
  for (int64_t splits : {33, 65}) {
    for (int64_t heavy : {int64_t{0}, int64_t{31}, int64_t{32}, splits - 1}) {
      SCOPED_TRACE("split " + std::to_string(heavy) + " of " + std::to_string(splits));
      Call call(many(splits));
      call.lay_out(&Call::bias, {0, 0, 0, 1});
      for (int64_t j = 0; j < 64; ++j) call.bias.set({0, 0, 0, heavy * 64 + j}, 200);
      holds(call);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Splits, testing::Values("splitk", "splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
