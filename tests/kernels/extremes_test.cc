// Tests scores so low that a kernel may take them for masked, and values of masked keys,
// which must not matter.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

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

// The largest difference of O from the mean of the values at keys first <= j < last.
double o_error(const Call& call, int64_t first, int64_t last) {
  double worst = 0;
  call.o.for_each([&](const Index& at) {
    double sum = 0;
    for (int64_t j = first; j < last; ++j) sum += call.v.get({at[0], at[1], j, at[3]});
    worst = std::max(worst, std::fabs(call.o.get(at) - sum / static_cast<double>(last - first)));
  });
  return worst;
}

// 130 keys: the last tile is not whole. 192 keys: rows of a 16-bit bias are whole chunks of 16 bytes.
attn_problem biased(int32_t dtype, int64_t seq_k = 130) {
  attn_problem p = square(40, 16);
  p.seq_k = seq_k;
  p.causal = 0;
  p.bias_dtype = dtype;
  return p;
}

// However low its scores are, a row that sees a key is not dead.
TEST_P(Extremes, AllScoresOfARowAreVeryLow) {
  for (int64_t seq_k : {130, 192}) {
    for (int32_t dtype : {ATTN_F32, ATTN_BF16}) {
      for (float low : {-1e30f, -3e30f, -1e38f}) {
        SCOPED_TRACE("dtype " + std::to_string(dtype) + ", bias " + std::to_string(low));
        Call call(biased(dtype, seq_k));
        call.bias.for_each([&](const Index& at) { call.bias.set(at, low); });
        holds_its_way(call);
        EXPECT_LE(lse_error(call, call.bias.get({})), 1e-5);
      }
    }
  }
}

// Neither is a row dead if its scores leave the range of fp32 when multiplied by log2 e.
TEST_P(Extremes, AllScoresOfARowAreTheLowest) {
  for (const auto& [dtype, seq_k, lowest] :
       {std::tuple{ATTN_F32, 130, std::numeric_limits<float>::lowest()}, {ATTN_BF16, 192, -0x1.fep127f}}) {
    SCOPED_TRACE("keys " + std::to_string(seq_k));
    Call call(biased(dtype, seq_k));
    call.bias.for_each([&](const Index& at) { call.bias.set(at, lowest); });
    holds_its_way(call);
    double least = 0, most = -INFINITY;
    call.lse.for_each([&](const Index& at) { least = std::min(least, call.lse.get(at)); });
    call.lse.for_each([&](const Index& at) { most = std::max(most, call.lse.get(at)); });
    EXPECT_LT(most, -2e38);
    EXPECT_GE(least, std::numeric_limits<float>::lowest()) << "dead";

    // Only such keys, of equal weight, without splits: an LSE of that size does not say how many keys there
    // are.
    call.q.for_each([&](const Index& at) { call.q.set(at, 0); });
    call.problem.num_splits = 1;
    holds(call);
    EXPECT_LE(o_error(call, 0, seq_k), 2e-3);

    // A tile of such keys before the tile with ordinary scores.
    call.bias.for_each([&](const Index& at) { call.bias.set(at, at[3] < 128 ? lowest : 0); });
    holds_its_way(call);
    EXPECT_LE(o_error(call, 128, seq_k), 2e-3);
    EXPECT_LE(lse_error(call, std::log(seq_k - 128)), 1e-5);
  }
}

// One such row among others, at every place among the rows of a thread and of a warp. Its bias is the lowest
// bf16: with a product added, or times log2 e, it is -inf. The row sees first a tile of such keys, or an
// ordinary key.
TEST_P(Extremes, TheScoresOfOneRowAreTheLowest) {
  constexpr float kLowest = -0x1.fep127f;
  for (int64_t row : {0, 5, 8, 15, 16, 24, 31, 39}) {
    SCOPED_TRACE("row " + std::to_string(row));
    Call call(biased(ATTN_BF16, 192));
    for (int64_t j = 0; j < 192; ++j) call.bias.set({0, 0, row, j}, kLowest);
    holds_its_way(call);
    EXPECT_LT(call.lse.get({0, 0, row, 0}), -2e38);
    EXPECT_GE(call.lse.get({0, 0, row, 0}), std::numeric_limits<float>::lowest()) << "dead";

    call.bias.set({0, 0, row, 190}, 0);
    holds_its_way(call);
    EXPECT_LT(std::fabs(call.lse.get({0, 0, row, 0})), 10) << "the LSE of one ordinary key";
  }
}

// A key that a bias of -inf hides has no effect, even if it holds NaN.
TEST_P(Extremes, NanUnderABiasThatHidesIt) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int64_t seq_k : {130, 192}) {
    for (int32_t dtype : {ATTN_F32, ATTN_F16, ATTN_BF16}) {
      SCOPED_TRACE("dtype " + std::to_string(dtype) + ", keys " + std::to_string(seq_k));
      Call call(biased(dtype, seq_k));
      for (int64_t j : {int64_t{0}, int64_t{63}, int64_t{64}, seq_k - 1}) {
        for (int64_t c = 0; c < 16; ++c) call.k.set({0, 0, j, c}, NAN);
        for (int64_t i = 0; i < 40; ++i) call.bias.set({0, 0, i, j}, -kInf);
      }
      for (int64_t j = 0; j < seq_k; ++j) call.bias.set({0, 0, 7, j}, -kInf);  // and a row that sees none
      holds_its_way(call);
      EXPECT_EQ(call.lse.get({0, 0, 7, 0}), -kInf);
      EXPECT_TRUE(std::isfinite(call.lse.get({0, 0, 8, 0})));
    }
  }
}

// A NaN value does not reach a row that does not see its key, though rows that see it are NaN.
TEST_P(Extremes, NanValuesBesideARowThatDoesNotSeeThem) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int64_t row : {0, 8, 23}) {
    Call call(biased(ATTN_F16, 192));
    for (int64_t j = 0; j < 192; ++j) call.bias.set({0, 0, row, j}, -kInf);
    for (int64_t j : {5, 100})
      for (int64_t c = 0; c < 16; ++c) call.v.set({0, 0, j, c}, NAN);
    for (int64_t splits : {1, 3}) {
      call.problem.num_splits = splits;
      call.worst_ratio(kernel());  // runs the kernel; the other rows are NaN
      EXPECT_EQ(call.lse.get({0, 0, row, 0}), -kInf);
      for (int64_t c = 0; c < 16; ++c) EXPECT_EQ(call.o.get({0, 0, row, c}), 0);
    }
  }
}

// A NaN of a key that a bias hides from only one row has no effect on that row.
TEST_P(Extremes, NanThatOneRowDoesNotSee) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int64_t row : {0, 8}) {
    for (int64_t j : {0, 1, 9, 62}) {
      SCOPED_TRACE("row " + std::to_string(row) + ", key " + std::to_string(j));
      Call call(biased(ATTN_BF16, 192));
      call.bias.set({0, 0, row, j}, -kInf);
      holds_its_way(call);
      const double lse = call.lse.get({0, 0, row, 0}), o = call.o.get({0, 0, row, 3});
      for (int64_t c = 0; c < 16; ++c) call.k.set({0, 0, j, c}, NAN);
      call.worst_ratio(kernel());
      EXPECT_EQ(call.lse.get({0, 0, row, 0}), lse);
      EXPECT_EQ(call.o.get({0, 0, row, 3}), o);
    }
  }
}

// A bias hides all keys of one row, so that it is dead; then all but every second key of one tile. Two bias
// values lie in one 32-bit word, and then only one of them hides its key.
TEST_P(Extremes, KeysOfARowThatAreHiddenByABias) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int32_t dtype : {ATTN_F16, ATTN_BF16}) {
    for (int64_t row : {0, 8, 21, 31, 39}) {
      for (int64_t tile : {0, 128}) {
        for (int64_t odd : {0, 1}) {
          SCOPED_TRACE("row " + std::to_string(row) + ", keys from " + std::to_string(tile + odd));
          Call call(biased(dtype, 192));
          for (int64_t j = 0; j < 192; ++j) call.bias.set({0, 0, row, j}, -kInf);
          holds_its_way(call);
          EXPECT_EQ(call.lse.get({0, 0, row, 0}), -kInf);
          for (int64_t j = tile + odd; j < tile + 64; j += 2) call.bias.set({0, 0, row, j}, 0);
          holds_its_way(call);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Extremes, testing::Values("fa1", "splitk", "fa1a", "fa1h", "splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
