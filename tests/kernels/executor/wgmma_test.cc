// Tests the reports of misused wgmma products; tests/kernels/primitives/wgmma_test.cc tests their sums.
#include "kernels/primitives/wgmma.h"

#include <algorithm>
#include <cmath>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix_store.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

constexpr uint64_t kLate = 0, kEarly = 16;
using Tile = PanelTile<F16, 64, 64>;

enum class Wrong {
  kNothing,
  kNoFence,
  kNoFenceForRegisters,
  kNoWait,
  kReadEarly,
  kWritten,
  kNeverWaited,
  kNotCommitted,
  kOneWarpLess,
  kOneWarpLeaves,
  kOtherOperand,
  kOtherAccumulate,
  kOtherAccumulators,
  kOperandRefilled,  // shared memory written before the wait
  kRegistersReused,  // an operand in registers written before the wait
  kNoProxyFence,
  kNoProxyFenceOfCopy,
  kStrideOff,
  kOddStride,
};

struct Result {
  float s[128][32], o[128][32];
};

alignas(16) constexpr uint32_t kOnes[4] = {0x3C003C00, 0x3C003C00, 0x3C003C00, 0x3C003C00};

__device__ void fill_with_ones(Wrong wrong, Tile a, Tile b) {
  for (int i = static_cast<int>(threadIdx.x); i < 64 * 64; i += 128) a.base[i] = b.base[i] = F16{0x3C00};
  if (wrong == Wrong::kNoProxyFence) {
    if (warp_id() == 2) stsm4(b.at(lane_id(), 8), kOnes);
  } else if (wrong ==
             Wrong::kNoProxyFenceOfCopy) {  // the block's first operation of the async proxy is the product
    if (warp_id() == 2) cp_async16(b.at(lane_id(), 8), kOnes, true);
    cp_commit();
    cp_wait<0>();
  } else {
    fence_proxy_async();
  }
  cta_sync();
}

// S = A B^T where all elements are 1, so 64; and O = P B where all elements of P are 2, so 128.
__global__ void two_products(Wrong wrong, Result* result) {
  SharedArena arena;
  const Tile a{arena.carve<F16>(Tile::kBytes / 2, 1024)}, b{arena.carve<F16>(Tile::kBytes / 2, 1024)};
  const int me = static_cast<int>(threadIdx.x), warp = warp_id();
  fill_with_ones(wrong, a, b);
  float s[8][4], o[8][4] = {};
  uint32_t p[4][4];
  for (auto& k : p) {
    for (uint32_t& word : k) word = 0x40004000;
  }
  if (wrong == Wrong::kOneWarpLeaves && warp == 3) return;
  if (wrong != Wrong::kNoFence) wgmma_fence();
  WgmmaOperand first = WgmmaOperand::of(a.base, 16,
                                        wrong == Wrong::kStrideOff   ? 8192
                                        : wrong == Wrong::kOddStride ? 1000
                                                                     : 1024);
  if (wrong == Wrong::kOtherOperand && me == 70) first = first.plus(32);
  const int products = wrong == Wrong::kOneWarpLess && warp == 3 ? 3 : 4;
  for (uint32_t k = 0; k < 4; ++k) {
    if (static_cast<int>(k) >= products) break;
    const bool accumulate = k > 0 || (wrong == Wrong::kOtherAccumulate && me == 9);
    wgmma_ss<F16>(wrong == Wrong::kOtherAccumulators && me == 5 && k == 2 ? o : s, first.plus(32 * k),
                  WgmmaOperand::of(b.base, 16, 1024).plus(32 * k), accumulate);
  }
  wgmma_commit();
  if (wrong != Wrong::kNoFenceForRegisters) wgmma_fence();
  const WgmmaOperand v = WgmmaOperand::of(b.base, 8192, 1024);
  for (uint32_t k = 0; k < 4; ++k) wgmma_rs<F16>(o, p[k], v.plus(2048 * k), true);
  if (wrong != Wrong::kNotCommitted) wgmma_commit();
  if (wrong == Wrong::kWritten && me == 99) s[0][2] = 5;
  if (wrong == Wrong::kReadEarly) {
    for (int i = 0; i < 32; ++i) result->s[me][i] = s[i / 4][i % 4];
  }
  if (wrong == Wrong::kRegistersReused) p[0][0] = p[2][1] = 0;
  if (wrong == Wrong::kOperandRefilled) {
    bar_sync(1, 128);  // all have issued
    for (int i = me; i < 64 * 64; i += 128) b.base[i] = F16{0};
    bar_sync(1, 128);
  }
  if (wrong != Wrong::kNoWait) {
    wgmma_wait<1>();
    if (wrong != Wrong::kReadEarly) {
      for (int i = 0; i < 32; ++i) result->s[me][i] = s[i / 4][i % 4];
    }
    if (wrong != Wrong::kNeverWaited) wgmma_wait<0>();
  }
  for (int i = 0; i < 32; ++i) result->o[me][i] = o[i / 4][i % 4];
  if (wrong == Wrong::kNoWait) wgmma_wait<0>();
}

// S = A^T B where all elements are 1, so 64. A and B are transposed in shared memory.
__global__ void transposed_product(Wrong wrong, Result* result) {
  SharedArena arena;
  const Tile a{arena.carve<F16>(Tile::kBytes / 2, 1024)}, b{arena.carve<F16>(Tile::kBytes / 2, 1024)};
  const int me = static_cast<int>(threadIdx.x);
  fill_with_ones(wrong, a, b);
  float s[8][4], o[8][4];
  if (wrong != Wrong::kNoFence) wgmma_fence();
  const uint32_t stride = wrong == Wrong::kStrideOff ? 16384 : wrong == Wrong::kOddStride ? 1000 : 1024;
  WgmmaOperand first = WgmmaOperand::of(a.base, 8192, stride);
  if (wrong == Wrong::kOtherOperand && me == 70) first = first.plus(2048);
  const WgmmaOperand second = WgmmaOperand::of(b.base, 8192, 1024);
  for (uint32_t k = 0; k < 4; ++k) {
    const bool accumulate = k > 0 || (wrong == Wrong::kOtherAccumulate && me == 9);
    wgmma_tt<F16>(wrong == Wrong::kOtherAccumulators && me == 5 && k == 2 ? o : s, first.plus(2048 * k),
                  second.plus(2048 * k), accumulate);
  }
  if (wrong != Wrong::kNotCommitted) wgmma_commit();
  if (wrong == Wrong::kWritten && me == 99) s[0][2] = 5;
  if (wrong == Wrong::kOperandRefilled) {
    bar_sync(1, 128);  // all have issued
    for (int i = me; i < 64 * 64; i += 128) a.base[i] = F16{0};
    bar_sync(1, 128);
  }
  if (wrong != Wrong::kNeverWaited) wgmma_wait<0>();
  for (int i = 0; i < 32; ++i) result->s[me][i] = s[i / 4][i % 4];
}

struct Trial {
  Outcome outcome;
  std::unique_ptr<Result> result = std::make_unique<Result>();
  bool right_s() const {
    for (int i = 0; i < 128 * 32; ++i) {
      if (result->s[i / 32][i % 32] != 64) return false;
    }
    return outcome.told() == "ok";
  }
  bool right() const {
    for (int i = 0; i < 128 * 32; ++i) {
      if (result->o[i / 32][i % 32] != 128) return false;
    }
    return right_s();
  }
};

Trial run(void (*kernel)(Wrong, Result*), Wrong wrong, uint64_t seed) {
  Trial trial;
  trial.outcome =
      run_on_cpu(kernel, 1, 128, {.seed = seed, .shared = 2 * Tile::kBytes + 2048}, wrong, trial.result.get());
  return trial;
}
Trial run(Wrong wrong, uint64_t seed) { return run(two_products, wrong, seed); }
Trial run_transposed(Wrong wrong, uint64_t seed) { return run(transposed_product, wrong, seed); }

TEST(Wgmma, TwoBatchesUnderWayAreRightUnderEverySchedule) {
  for (uint64_t seed : all_schedules()) {
    const Trial done = run(Wrong::kNothing, seed);
    EXPECT_TRUE(done.right()) << seed << ": " << done.outcome.told();
    const Trial transposed = run_transposed(Wrong::kNothing, seed);
    EXPECT_TRUE(transposed.right_s()) << seed << ": " << transposed.outcome.told();
  }
}

TEST(Wgmma, AccumulatorsReadWithoutTheWaitAreNaNs) {
  for (uint64_t seed : all_schedules()) {
    const Trial missing = run(Wrong::kNoWait, seed), early = run(Wrong::kReadEarly, seed);
    EXPECT_EQ(missing.outcome.told(), "ok");
    EXPECT_EQ(early.outcome.told(), "ok");
    for (int i = 0; i < 128 * 32; ++i) {
      ASSERT_TRUE(std::isnan(missing.result->o[i / 32][i % 32]));
      ASSERT_TRUE(std::isnan(early.result->s[i / 32][i % 32]));
      ASSERT_EQ(early.result->o[i / 32][i % 32], 128);
    }
  }
}

TEST(Wgmma, OperandsOverwrittenBeforeTheWaitShowWhereTheyAreReadLate) {
  for (Wrong wrong : {Wrong::kOperandRefilled, Wrong::kRegistersReused}) {
    for (uint64_t order = 0; order < 4; ++order) {
      EXPECT_FALSE(run(wrong, kLate + order).right());
      EXPECT_TRUE(run(wrong, kEarly + order).right());
    }
  }
  for (uint64_t order = 0; order < 4; ++order) {
    EXPECT_FALSE(run_transposed(Wrong::kOperandRefilled, kLate + order).right_s());
    EXPECT_TRUE(run_transposed(Wrong::kOperandRefilled, kEarly + order).right_s());
  }
}

TEST(Wgmma, MisuseIsReported) {
  struct {
    Wrong wrong;
    attn_report_kind kind;
    const char* words;
    bool transposed = true;  // the products of transposed operands are misused in the same way
  } cases[] = {
      {Wrong::kNoFence, ATTN_REPORT_ASYNC, "a product without wgmma_fence"},
      {Wrong::kNoFenceForRegisters, ATTN_REPORT_ASYNC, "its operand in registers", false},
      {Wrong::kWritten, ATTN_REPORT_ASYNC, "were written before the product was waited for"},
      {Wrong::kNeverWaited, ATTN_REPORT_ASYNC, "ended with 4 products that it never waited for"},
      {Wrong::kNotCommitted, ATTN_REPORT_ASYNC, "ended with 4 products that it never waited for"},
      {Wrong::kOneWarpLess, ATTN_REPORT_DIVERGENCE, "another place than other threads", false},
      {Wrong::kOtherOperand, ATTN_REPORT_DIVERGENCE, "another operand A"},
      {Wrong::kOtherAccumulate, ATTN_REPORT_DIVERGENCE, "another answer to whether it accumulates"},
      {Wrong::kOtherAccumulators, ATTN_REPORT_DIVERGENCE, "another array of accumulators"},
      {Wrong::kNoProxyFence, ATTN_REPORT_ASYNC, "an operand of wgmma at"},
      {Wrong::kNoProxyFenceOfCopy, ATTN_REPORT_ASYNC, "which has not called fence_proxy_async since"},
      {Wrong::kStrideOff, ATTN_REPORT_SHARED, "operand A of wgmma at"},
      {Wrong::kOddStride, ATTN_REPORT_ALIGNMENT, "not multiples of 16"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.words);
    for (uint64_t seed : all_schedules()) {
      expect_told(run(each.wrong, seed).outcome, each.kind, each.words);
      if (each.transposed) expect_told(run_transposed(each.wrong, seed).outcome, each.kind, each.words);
    }
  }
}

TEST(Wgmma, AWarpThatLeavesIsADeadlockThatNamesTheProduct) {
  for (uint64_t seed : all_schedules())
    expect_told(run(Wrong::kOneWarpLeaves, seed).outcome, ATTN_REPORT_DEADLOCK,
                "(96 of 128 threads have issued it) for ever");
}

enum class Registers { kRight, kTooMany, kOneWarpLess, kDiffer };

__global__ void hand_over(Registers how, int* line) {
  if (how == Registers::kOneWarpLess && warp_id() == 5) return;
  if (warpgroup_id() == 0) {
    if (how != Registers::kTooMany) give_registers<24>();
  } else if (how == Registers::kDiffer && warp_id() == 6) {
    *line = __LINE__ + 1;
    take_registers<232>();
  } else {
    if (how != Registers::kDiffer) *line = __LINE__ + 1;
    take_registers<240>();
  }
}

TEST(Warpgroup, AllThreadsMustHandOverRegistersWithinTheLaunchsLimit) {
  int line = 0;
  for (uint64_t seed : kOrders) {
    EXPECT_EQ(run_on_cpu(hand_over, 1, 384, {.seed = seed}, Registers::kRight, &line).told(), "ok");
  }
  expect_fault(run_on_cpu(hand_over, 1, 384, {}, Registers::kTooMany, &line), ATTN_REPORT_DEADLOCK, {256, 0, 0},
               line, "hold 82944 registers together, of 64512");
  expect_fault(run_on_cpu(hand_over, 1, 384, {}, Registers::kOneWarpLess, &line), ATTN_REPORT_DIVERGENCE,
               {128, 0, 0}, line, "96 of the 128 threads");
  expect_fault(run_on_cpu(hand_over, 1, 384, {}, Registers::kDiffer, &line), ATTN_REPORT_DIVERGENCE,
               {192, 0, 0}, line, "others of the warpgroup asked for 240");
}

__global__ void elect(int* who) {
  for (int round = 0; round < 3; ++round) {
    if (elect_one()) who[round * 3 + warp_id()] = lane_id();
  }
}

TEST(Warpgroup, TheElectedLaneIsAlwaysTheSame) {
  std::vector<int> lanes;
  for (uint64_t seed : all_schedules()) {
    std::vector<int> who(9, -1);
    ASSERT_EQ(run_on_cpu(elect, 1, 72, {.seed = seed}, who.data()).told(), "ok");
    for (int i = 0; i < 9; ++i) EXPECT_EQ(who[i], i % 3 == 2 ? who[2] : who[0]);
    EXPECT_TRUE(who[0] >= 0 && who[2] >= 0 && who[2] < 8);
    if (seed == 0) {
      EXPECT_EQ(who[0], 0);
    }
    lanes.push_back(who[0]);
  }
  std::ranges::sort(lanes);
  EXPECT_GT(std::ranges::unique(lanes).begin() - lanes.begin(), 8)
      << "a kernel must not rely on which lane it is";
}

}  // namespace
}  // namespace attn
