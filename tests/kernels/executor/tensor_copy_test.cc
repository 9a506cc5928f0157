// Tests copies of tensor boxes: where elements go, when they land, and the reports of misuse.
#include <algorithm>
#include <cmath>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/copy.h"
#include "kernels/primitives/matrix_store.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/tma.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

constexpr uint64_t kLate = 0, kEarly = 4;
constexpr int kRows = 16;
constexpr uint32_t kBox = kRows * 128;
constexpr size_t kShared = 3 * kBox + 4096;

// 2 x 3 matrices of `rows` x 100 elements, in rows of 104.
struct Tensor {
  static constexpr int64_t kColumns = 100, kPitch = 104;
  int64_t rows;
  std::vector<uint16_t> memory;
  TensorMap map;

  explicit Tensor(int64_t count, bool filled = true) : rows(count), memory(6 * count * kPitch + 8) {
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = filled ? static_cast<uint16_t>(i + 1) : 0;
    char reason[256] = "";
    const TensorView view{base(), {kColumns, rows, 3, 2}, {kPitch, rows * kPitch, 3 * rows * kPitch}};
    EXPECT_TRUE(make_tensor_map<F16>(&map, view, kRows, reason, sizeof reason)) << reason;
  }
  uint16_t* base() {
    return reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 15) / 16 * 16);
  }
  // Null outside.
  uint16_t* at(int64_t column, int64_t row, int64_t c2, int64_t c3) {
    const bool inside =
        column >= 0 && column < kColumns && row >= 0 && row < rows && c2 >= 0 && c2 < 3 && c3 >= 0 && c3 < 2;
    return inside ? base() + ((c3 * 3 + c2) * rows + row) * kPitch + column : nullptr;
  }
};

// Element (row, column) of a box.
uint16_t* element(uint16_t* box, int row, int column) {
  return box + row * 64 + (column / 8 ^ row % 8) * 8 + column % 8;
}

__global__ void copy_box(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                         Coordinates c, uint16_t* seen) {
  SharedArena arena;
  auto* box = arena.carve<uint16_t>(kBox / 2, 1024);
  Mbarrier* full = arena.carve<Mbarrier>(1);
  if (threadIdx.x == 0) mbarrier_init(full, 1), mbarrier_init_fence();
  cta_sync();
  if (threadIdx.x == 1) {
    mbarrier_expect(full, kBox);
    tma_load(box, from, full, c);
  }
  mbarrier_wait(full, 0);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kRows * 64; ++i) seen[i] = *element(box, i / 64, i % 64);
    tma_store(to, box, c);
    bulk_commit();
    bulk_wait_read<0>();
  }
}

TEST(TensorCopy, PutsZerosOutsideAndLeavesTheOutsideAlone) {
  Tensor from(20);
  for (const Coordinates c : {Coordinates{{0, 0, 0, 0}},
                              {{64, 8, 2, 1}},
                              {{-3, -5, 1, 0}},
                              {{0, 20, 0, 0}},
                              {{96, 19, 0, 1}},
                              {{0, 0, 3, 0}},
                              {{0, 0, 0, -1}}}) {
    for (uint64_t seed : all_schedules()) {
      Tensor to(20, false);
      std::vector<uint16_t> seen(kRows * 64, 7);
      ASSERT_EQ(run_on_cpu(copy_box, 1, 64, {.seed = seed, .shared = kShared}, from.map, to.map, c, seen.data())
                    .told(),
                "ok");
      int written = 0;
      for (int i = 0; i < kRows * 64; ++i) {
        const int64_t column = c.at[0] + i % 64, row = c.at[1] + i / 64;
        const uint16_t* source = from.at(column, row, c.at[2], c.at[3]);
        ASSERT_EQ(seen[i], source ? *source : 0);
        if (!source) continue;
        ASSERT_EQ(*to.at(column, row, c.at[2], c.at[3]), *source);
        ++written;
      }
      EXPECT_EQ(std::ranges::count_if(to.memory, [](uint16_t value) { return value != 0; }), written);
    }
  }
}

// If no thread of the block has waited for the previous kernel, that kernel may not have written the tensor
// yet.
TEST(TensorCopy, OfADependentLaunchComesAfterTheWait) {
  Tensor from(20), to(20, false);
  std::vector<uint16_t> seen(kRows * 64);
  expect_told(run_on_cpu(copy_box, 1, 64, {.shared = kShared, .dependent = true}, from.map, to.map,
                         Coordinates{{0, 0, 0, 0}}, seen.data()),
              ATTN_REPORT_ASYNC, "before anyone of its block has called grid_dependency_wait()");
}

enum class Wrong {
  kNothing,
  kNoWait,
  kRefill,           // a box is loaded over one that is still read
  kWriteUnderneath,  // a destination is written before it has landed
  kPartialBytes,
  kTooManyBytes,
  kNobodyWaits,
  kUnfencedBarrier,
  kNoProxyFence,
  kOtherLaneFences,
  kReuseUnread,  // a store's source is written again before it was read
  kStoreNotWaited,
  kStoreNotCommitted,
  kMisaligned,
  kBeyondArray,
};

struct Result {
  uint16_t loaded[2];
  int line;
};

// A box is loaded, read, loaded again; another is written by stsm4 and stored.
__global__ void load_and_store(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                               Wrong wrong, Result* result) {
  SharedArena arena;
  auto* box = arena.carve<uint16_t>(kBox / 2, 1024);
  auto* out = arena.carve<uint16_t>(kBox / 2, 1024);
  Mbarrier* full = arena.carve<Mbarrier>(1);
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == 7) {
    mbarrier_init(full, 1);
    if (wrong != Wrong::kUnfencedBarrier) mbarrier_init_fence();
  }
  cta_sync();
  if (lane == 7) {
    char* to_box = reinterpret_cast<char*>(box);
    if (wrong == Wrong::kMisaligned) to_box += 64;
    if (wrong == Wrong::kBeyondArray) to_box += 1024;
    if (wrong == Wrong::kTooManyBytes)
      mbarrier_expect(full, kBox / 2);
    else
      mbarrier_expect(full, wrong == Wrong::kPartialBytes ? 2 * kBox - 3 * 128 : kBox);
    result->line = __LINE__ + 1;
    tma_load(to_box, from, full, {{0, 0, 0, 0}});
  }
  if (wrong == Wrong::kNobodyWaits) return;
  if (wrong == Wrong::kWriteUnderneath && lane == 3)
    box[5] = 1;  // if lanes run in descending order, after lane 7
  if (wrong == Wrong::kPartialBytes || wrong == Wrong::kUnfencedBarrier) result->line = __LINE__ + 1;
  if (wrong != Wrong::kNoWait) mbarrier_wait(full, 0);
  if (lane == 0) result->loaded[0] = box[0];
  if (wrong == Wrong::kNoWait) mbarrier_wait(full, 0);
  if (wrong != Wrong::kRefill) cta_sync();
  if (lane == 7) {
    mbarrier_expect(full, kBox);
    tma_load(box, from, full, {{0, 1, 0, 0}});
  }
  mbarrier_wait(full, 1);
  if (lane == 0) result->loaded[1] = box[0];

  for (int step = 0; step < 2; ++step) {
    for (int column = 0; column < 64; column += 16) {
      uint32_t r[4];
      for (int j = 0; j < 4; ++j) r[j] = 0x3C003C00u + 0x00010001u * static_cast<uint32_t>(step);
      stsm4(element(out, lane % 16, column + lane / 16 * 8), r);
    }
    if (wrong != Wrong::kNoProxyFence && (wrong != Wrong::kOtherLaneFences || lane == 7)) fence_proxy_async();
    cta_sync();
    if (lane == 7) {
      result->line = wrong >= Wrong::kNoProxyFence ? __LINE__ + 1 : result->line;
      tma_store(to, out, {{0, step * kRows, 0, 0}});
      if (wrong != Wrong::kStoreNotCommitted) bulk_commit();
      if (wrong != Wrong::kReuseUnread || step) {
        if (wrong != Wrong::kStoreNotWaited) bulk_wait_read<0>();
      }
    }
    cta_sync();
  }
}

struct Trial {
  Outcome outcome;
  Result result{};
  uint16_t stored[2];
  bool right() const {
    return outcome.told() == "ok" && result.loaded[0] == 1 && result.loaded[1] == 105 && stored[0] == 0x3C00 &&
           stored[1] == 0x3C01;
  }
};

Trial run(Wrong wrong, uint64_t seed) {
  Tensor from(40), to(40, false);
  // Their first elements are 1 and, a row on, 105.
  for (int64_t i = 0; i < 40 * Tensor::kPitch; ++i) from.base()[i] = static_cast<uint16_t>(i + 1);
  Trial trial;
  trial.outcome = run_on_cpu(load_and_store, 1, 32, {.seed = seed, .shared = kShared}, from.map, to.map, wrong,
                             &trial.result);
  trial.stored[0] = *to.at(0, 0, 0, 0), trial.stored[1] = *to.at(63, kRows, 0, 0);
  return trial;
}

TEST(TensorCopy, ARightKernelIsRightUnderEverySchedule) {
  for (uint64_t seed : all_schedules()) {
    const Trial done = run(Wrong::kNothing, seed);
    EXPECT_TRUE(done.right()) << seed << ": " << done.outcome.told();
  }
}

TEST(TensorCopy, AMissingWaitShowsWhenLandingLate) {
  EXPECT_EQ(run(Wrong::kNoWait, kLate).result.loaded[0], 0xFFFF);
  EXPECT_EQ(run(Wrong::kNoWait, kEarly + 3).outcome.told(), "ok");
}

TEST(TensorCopy, ABoxReleasedTooSoonShows) {
  int wrong = 0;
  for (uint64_t seed : all_schedules()) wrong += !run(Wrong::kRefill, seed).right();
  EXPECT_GE(wrong, 4);
}

TEST(TensorCopy, AStoresSourceWrittenTooSoonShowsWhenLandingLate) {
  for (uint64_t order = 0; order < 4; ++order) {
    EXPECT_EQ(run(Wrong::kReuseUnread, kLate + order).stored[0], 0x3C01);
    EXPECT_EQ(run(Wrong::kReuseUnread, kEarly + order).stored[0], 0x3C00);
  }
}

TEST(TensorCopy, MisuseIsReported) {
  struct {
    Wrong wrong;
    attn_report_kind kind;
    const char* words;
    uint64_t seeds[2];
  } cases[] = {
      {Wrong::kWriteUnderneath,
       ATTN_REPORT_ASYNC,
       "was written while a load to it was under way",
       {kLate + 1, kLate + 1}},
      {Wrong::kTooManyBytes, ATTN_REPORT_ASYNC, "1024 bytes more have landed", {kLate, kEarly}},
      {Wrong::kNobodyWaits, ATTN_REPORT_ASYNC, "the block ended with 1 loads under way", {kLate, kLate + 3}},
      {Wrong::kNoProxyFence,
       ATTN_REPORT_ASYNC,
       "which has not called fence_proxy_async since",
       {kLate, kEarly}},
      {Wrong::kOtherLaneFences, ATTN_REPORT_ASYNC, "by thread (0,0,0), which has not called", {kLate, kEarly}},
      {Wrong::kStoreNotWaited,
       ATTN_REPORT_ASYNC,
       "2 stores of boxes that it never waited for",
       {kLate, kEarly}},
      {Wrong::kStoreNotCommitted, ATTN_REPORT_ASYNC, "never waited for, nor committed", {kLate, kEarly}},
      {Wrong::kMisaligned, ATTN_REPORT_ALIGNMENT, "not a multiple of 128", {kLate, kEarly}},
      {Wrong::kBeyondArray, ATTN_REPORT_SHARED, "not within an array of shared memory", {kLate, kEarly}},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.words);
    for (uint64_t seed : each.seeds) {
      const Trial done = run(each.wrong, seed);
      expect_fault(done.outcome, each.kind, {7, 0, 0}, done.result.line, each.words);
    }
  }
}

__global__ void store_nines(const __grid_constant__ TensorMap to, int first_column) {
  SharedArena arena;
  auto* box = arena.carve<uint16_t>(kBox / 2, 1024);
  for (int i = static_cast<int>(threadIdx.x); i < kRows * 64; i += 32) box[i] = 9;
  fence_proxy_async();
  cta_sync();
  if (threadIdx.x == 0) {
    tma_store(to, box, {{first_column, 0, 0, 0}});
    bulk_commit();
    bulk_wait_read<0>();
  }
}

// The engine writes whole chunks of 16 bytes, so it writes past a row that ends within one.
TEST(TensorCopy, AStoreWritesTheLastChunkOfARowWhole) {
  constexpr int64_t kPitch = 80;
  for (uint64_t seed : {kLate, kEarly}) {
    for (int first : {0, -3, 8}) {
      for (int64_t columns : {60, 64, 57}) {
        alignas(16) uint16_t memory[kRows * kPitch] = {};
        TensorMap map;
        char reason[256] = "";
        const TensorView view{memory, {columns, kRows, 1, 1}, {kPitch, kRows * kPitch, kRows * kPitch}};
        ASSERT_TRUE(make_tensor_map<F16>(&map, view, kRows, reason, sizeof reason)) << reason;
        ASSERT_EQ(run_on_cpu(store_nines, 1, 32, {.seed = seed, .shared = kShared}, map, first).told(), "ok");
        for (int64_t i = 0; i < kRows * kPitch; ++i) {
          const int64_t column = i % kPitch;
          const bool written = column >= first && column < first + 64 && column < 64;
          ASSERT_EQ(memory[i], written ? 9 : 0) << columns << " columns from " << first << ": " << column;
        }
      }
    }
  }
}

// A row of a box is cleared by cp_async16() before the box is stored.
__global__ void clear_and_store(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                                bool fenced) {
  SharedArena arena;
  auto* box = arena.carve<uint16_t>(kBox / 2, 1024);
  Mbarrier* full = arena.carve<Mbarrier>(1);
  if (threadIdx.x == 0) mbarrier_init(full, 1), mbarrier_init_fence();
  cta_sync();
  if (threadIdx.x == 0) {
    mbarrier_expect(full, kBox);
    tma_load_once(box, from, full, {{0, 0, 0, 0}});
  }
  mbarrier_wait(full, 0);
  if (threadIdx.x < 8) cp_async16(element(box, 2, 8 * static_cast<int>(threadIdx.x)), nullptr, false);
  cp_commit();
  cp_wait<0>();
  if (fenced) fence_proxy_async();
  cta_sync();
  if (threadIdx.x == 0) {
    tma_store(to, box, {{0, 0, 0, 0}});
    bulk_commit();
    bulk_wait_read<0>();
  }
}

TEST(TensorCopy, DataOfCpAsyncNeedsAFenceToo) {
  for (uint64_t seed : all_schedules()) {
    Tensor from(40), to(40, false);
    const RunOptions options = {.seed = seed, .shared = kShared};
    EXPECT_EQ(run_on_cpu(clear_and_store, 1, 32, options, from.map, to.map, true).told(), "ok");
    EXPECT_EQ(*to.at(5, 1, 0, 0), *from.at(5, 1, 0, 0));
    EXPECT_EQ(*to.at(5, 2, 0, 0), 0);
    expect_told(run_on_cpu(clear_and_store, 1, 32, options, from.map, to.map, false), ATTN_REPORT_ASYNC,
                "which has not called fence_proxy_async since");
  }
}

TEST(TensorCopy, ABarrierWithoutItsFenceIsReported) {
  for (uint64_t seed : all_schedules())
    expect_told(run(Wrong::kUnfencedBarrier, seed).outcome, ATTN_REPORT_ASYNC,
                "has not called mbarrier_init_fence");
}

// A kernel must announce the bytes of whole boxes, also at the edge of a tensor.
TEST(TensorCopy, BytesThatNobodySendsAreADeadlockThatNamesThem) {
  for (uint64_t seed : {kLate, kEarly}) {
    const Trial done = run(Wrong::kPartialBytes, seed);
    expect_fault(done.outcome, ATTN_REPORT_DEADLOCK, {0, 0, 0}, done.result.line,
                 "(1 of 1 arrivals, 1664 bytes to come) for ever");
  }
}

__global__ void too_few_bytes(const __grid_constant__ TensorMap from, uint16_t* seen, int* line) {
  SharedArena arena;
  auto* boxes = arena.carve<uint16_t>(kBox, 1024);
  Mbarrier* full = arena.carve<Mbarrier>(1);
  if (threadIdx.x == 0) mbarrier_init(full, 1), mbarrier_init_fence();
  cta_sync();
  if (threadIdx.x == 0) {
    mbarrier_expect(full, kBox);  // announces one box, but two are loaded
    for (int i = 0; i < 2; ++i) {
      *line = __LINE__ + 1;
      tma_load(boxes + i * kBox / 2, from, full, {{0, 20 * i, 0, 0}});
    }
  }
  mbarrier_wait(full, 0);
  *seen = boxes[threadIdx.x % 2 * kBox / 2];
}

TEST(TensorCopy, MoreBoxesThanAnnouncedAreReported) {
  Tensor from(20);
  for (uint64_t seed : all_schedules()) {
    uint16_t seen = 0;
    int line = 0;
    EXPECT_EQ(
        run_on_cpu(too_few_bytes, 1, 32, {.seed = seed, .shared = kShared}, from.map, &seen, &line).status,
        ATTN_FAULT);
  }
}

}  // namespace
}  // namespace attn
