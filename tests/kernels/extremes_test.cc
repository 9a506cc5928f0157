// Scores so low that they are taken for none, and what must not matter under one
// that is none.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/call.h"

namespace attnfuzz {
namespace {

class Extremes : public OfKernel {};

double lse_error(const Call& call, double expected) {
  double worst = 0;
  call.lse.for_each(
      [&](const Index& at) { worst = std::max(worst, std::fabs(call.lse.get(at) / expected - 1)); });
  return worst;
}

// From the mean of the values at keys first <= j < last.
double o_error(const Call& call, int64_t first, int64_t last) {
  double worst = 0;
  call.o.for_each([&](const Index& at) {
    double sum = 0;
    for (int64_t j = first; j < last; ++j) sum += call.v.get({at[0], at[1], j, at[3]});
    worst = std::max(worst, std::fabs(call.o.get(at) - sum / static_cast<double>(last - first)));
  });
  return worst;
}

attn_problem biased(int32_t dtype) {
  attn_problem p = square(40, 16);
  p.seq_k = 130;
  p.causal = 0;
  p.bias_dtype = dtype;
  return p;
}

// However low its scores are, a row that sees a key is not dead.
TEST_P(Extremes, AllScoresOfARowAreVeryLow) {
  for (int32_t dtype : {ATTN_F32, ATTN_BF16}) {
    for (float low : {-1e30f, -3e30f, -1e38f}) {
      SCOPED_TRACE("dtype " + std::to_string(dtype) + ", bias " + std::to_string(low));
      Call call(biased(dtype));
      call.bias.for_each([&](const Index& at) { call.bias.set(at, low); });
      holds_in_parts(call);
      EXPECT_LE(lse_error(call, call.bias.get({})), 1e-5);
    }
  }
}

// Nor one whose scores leave the range of fp32 once they count powers of two.
TEST_P(Extremes, AllScoresOfARowAreTheLowest) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  Call call(biased(ATTN_F32));
  call.bias.for_each([&](const Index& at) { call.bias.set(at, kLowest); });
  holds_in_parts(call);
  double least = 0, most = -INFINITY;
  call.lse.for_each([&](const Index& at) { least = std::min(least, call.lse.get(at)); });
  call.lse.for_each([&](const Index& at) { most = std::max(most, call.lse.get(at)); });
  EXPECT_LT(most, -2e38);
  EXPECT_GE(least, kLowest) << "dead";

  // A tile of such keys before the one that counts.
  call.bias.for_each([&](const Index& at) { call.bias.set(at, at[3] < 128 ? kLowest : 0); });
  call.q.for_each([&](const Index& at) { call.q.set(at, 0); });
  holds_in_parts(call);
  EXPECT_LE(o_error(call, 128, 130), 2e-3);
  EXPECT_LE(lse_error(call, std::log(2)), 1e-5);
}

// A key that a bias of -inf hides is as good as not there.
TEST_P(Extremes, NanUnderABiasThatHidesIt) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int32_t dtype : {ATTN_F32, ATTN_F16, ATTN_BF16}) {
    SCOPED_TRACE("dtype " + std::to_string(dtype));
    Call call(biased(dtype));
    for (int64_t j : {0, 63, 64, 129}) {
      for (int64_t c = 0; c < 16; ++c) call.k.set({0, 0, j, c}, NAN);
      for (int64_t i = 0; i < 40; ++i) call.bias.set({0, 0, i, j}, -kInf);
    }
    for (int64_t j = 0; j < 130; ++j) call.bias.set({0, 0, 7, j}, -kInf);  // and a row that sees none
    holds_in_parts(call);
    EXPECT_EQ(call.lse.get({0, 0, 7, 0}), -kInf);
    EXPECT_TRUE(std::isfinite(call.lse.get({0, 0, 8, 0})));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Extremes, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
