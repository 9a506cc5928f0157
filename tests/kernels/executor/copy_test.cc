// Tests asynchronous copies. They may land early or late, and each landing shows other mistakes.
#include "kernels/primitives/copy.h"

#include <cmath>

#include "kernels/primitives/barrier.h"
#include "kernels/primitives/shared.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

constexpr uint64_t kLate = 0, kEarly = 4;

struct Rows {
  alignas(16) float in[8][4];
  float out[8][4];
  Rows() {
    for (int i = 0; i < 32; ++i) in[i / 4][i % 4] = static_cast<float>(i + 1), out[i / 4][i % 4] = -1;
  }
};

__global__ void stream(Rows* rows, int valid, int waits) {
  SharedArena arena;
  float* buffer = arena.carve<float>(8, 16);
  for (int i = 0; i < 8; ++i) {
    cp_async16(buffer + i % 2 * 4, i < valid ? rows->in[i] : nullptr, i < valid);
    cp_commit();
    if (i == 0) continue;
    if (waits) cp_wait<1>();
    for (int c = 0; c < 4; ++c) rows->out[i - 1][c] = buffer[(i - 1) % 2 * 4 + c];
  }
  cp_wait<0>();
  for (int c = 0; c < 4; ++c) rows->out[7][c] = buffer[4 + c];
}

TEST(Copy, DoubleBufferingIsRightUnderBothLandings) {
  for (uint64_t seed : {kLate, kEarly}) {
    Rows rows;
    EXPECT_EQ(run_on_cpu(stream, 1, 1, {.seed = seed, .shared = 64}, &rows, 7, 1).told(), "ok");
    for (int i = 0; i < 32; ++i) EXPECT_EQ(rows.out[i / 4][i % 4], i < 28 ? i + 1 : 0);
  }
}

__global__ void no_wait(Rows* rows) {
  SharedArena arena;
  float* buffer = arena.carve<float>(4);
  cp_async16(buffer, rows->in[0], true);
  cp_commit();
  rows->out[0][0] = buffer[0];
  cp_wait<0>();
}

TEST(Copy, AMissingWaitShowsWhenLandingLate) {
  Rows rows;
  EXPECT_EQ(run_on_cpu(no_wait, 1, 1, {.seed = kLate, .shared = 64}, &rows).told(), "ok");
  EXPECT_TRUE(std::isnan(rows.out[0][0]));
  EXPECT_EQ(run_on_cpu(no_wait, 1, 1, {.seed = kEarly, .shared = 64}, &rows).told(), "ok");
  EXPECT_EQ(rows.out[0][0], 1);
}

// Row 1 is copied into the buffer that row 0 is still read from.
__global__ void refill_too_soon(Rows* rows, int* line) {
  SharedArena arena;
  float* buffer = arena.carve<float>(4);
  cp_async16(buffer, rows->in[0], true);
  cp_commit();
  cp_wait<0>();
  const float first = buffer[0];
  *line = __LINE__ + 1;
  cp_async16(buffer, rows->in[1], true);
  rows->out[0][0] = first + buffer[3];
  buffer[0] = 5;
  cp_commit();
  cp_wait<0>();
}

TEST(Copy, ABufferRefilledTooSoonShowsWhenLandingEarly) {
  Rows rows;
  int line = 0;
  EXPECT_EQ(run_on_cpu(refill_too_soon, 1, 1, {.seed = kEarly, .shared = 64}, &rows, &line).told(), "ok");
  EXPECT_EQ(rows.out[0][0], 1 + 8);
}

TEST(Copy, AWriteToItsDestinationIsReportedWhenLandingLate) {
  Rows rows;
  int line = 0;
  expect_fault(run_on_cpu(refill_too_soon, 1, 1, {.seed = kLate, .shared = 64}, &rows, &line),
               ATTN_REPORT_ASYNC, {0, 0, 0}, line, "was written while an asynchronous copy");
}

__global__ void misaligned(Rows* rows, int shared_offset, int global_offset, bool valid, int* line) {
  SharedArena arena;
  float* buffer = arena.carve<float>(8);
  *line = __LINE__ + 1;
  cp_async16(buffer + shared_offset, &rows->in[0][0] + global_offset, valid);
  cp_commit();
  cp_wait<0>();
}

TEST(Copy, MisalignedAddressesAreReported) {
  Rows rows;
  int line = 0;
  for (uint64_t seed : {kLate, kEarly}) {
    const RunOptions options{.seed = seed, .shared = 64};
    EXPECT_EQ(run_on_cpu(misaligned, 1, 1, options, &rows, 4, 4, true, &line).told(), "ok");
    EXPECT_EQ(run_on_cpu(misaligned, 1, 1, options, &rows, 0, 1, false, &line).told(), "ok") << "not read";
    expect_fault(run_on_cpu(misaligned, 1, 1, options, &rows, 1, 0, true, &line), ATTN_REPORT_ALIGNMENT,
                 {0, 0, 0}, line, "shared address");
    expect_fault(run_on_cpu(misaligned, 1, 1, options, &rows, 0, 2, true, &line), ATTN_REPORT_ALIGNMENT,
                 {0, 0, 0}, line, "global address");
  }
}

__global__ void copy_bytes(Rows* rows, uint32_t bytes, uint32_t given, int* line) {
  SharedArena arena;
  float* buffer = arena.carve<float>(16);
  *line = __LINE__ + 1;
  simt::copy_async(buffer, rows->in[0], bytes, given, simt::Place::now());
  cp_commit();
  cp_wait<0>();
  for (int i = 0; i < 4; ++i) rows->out[0][i] = buffer[i];
}

TEST(Copy, OnlySizesOfTheHardwareAreCopied) {
  Rows rows;
  int line = 0;
  for (uint64_t seed : {kLate, kEarly}) {
    const RunOptions options{.seed = seed, .shared = 64};
    for (uint32_t bytes : {0u, 1u, 2u, 12u, 32u, 64u}) {
      expect_fault(run_on_cpu(copy_bytes, 1, 1, options, &rows, bytes, bytes, &line), ATTN_REPORT_ASYNC,
                   {0, 0, 0}, line, "4, 8 or 16 are possible");
    }
    expect_fault(run_on_cpu(copy_bytes, 1, 1, options, &rows, 8, ~0u, &line), ATTN_REPORT_ASYNC, {0, 0, 0},
                 line, "of 8 bytes that reads 4294967295");
    for (uint32_t bytes : {4u, 8u, 16u}) {
      EXPECT_EQ(run_on_cpu(copy_bytes, 1, 1, options, &rows, bytes, bytes, &line).told(), "ok");
      for (uint32_t i = 0; i < 4; ++i) {
        if (4 * i < bytes) {
          EXPECT_EQ(rows.out[0][i], static_cast<float>(i + 1));
        } else {
          EXPECT_TRUE(std::isnan(rows.out[0][i]));
        }
      }
    }
  }
}

__global__ void from_nowhere(bool valid, int* line) {
  SharedArena arena;
  float* buffer = arena.carve<float>(4);
  *line = __LINE__ + 1;
  cp_async16(buffer, nullptr, valid);
  cp_commit();
  cp_wait<0>();
}

TEST(Copy, ANullSourceIsReportedWhereItWouldBeRead) {
  int line = 0;
  for (uint64_t seed : {kLate, kEarly}) {
    const RunOptions options{.seed = seed, .shared = 64};
    EXPECT_EQ(run_on_cpu(from_nowhere, 1, 1, options, false, &line).told(), "ok") << "zeros";
    expect_fault(run_on_cpu(from_nowhere, 1, 1, options, true, &line), ATTN_REPORT_ADDRESS, {0, 0, 0}, line,
                 "null pointer");
  }
}

__global__ void left_pending(Rows* rows, bool commit, int* line) {
  SharedArena arena;
  float* buffer = arena.carve<float>(8);
  cp_async16(buffer, rows->in[0], true);
  cp_commit();
  *line = __LINE__ + 1;
  if (threadIdx.x == 6) cp_async16(buffer + 4, rows->in[1], true);
  if (commit) cp_commit();
  if (commit) cp_wait<1>();
  if (!commit) cp_wait<0>();
}

TEST(Copy, ACopyThatIsNeverWaitedForIsReported) {
  Rows rows;
  int line = 0;
  expect_fault(run_on_cpu(left_pending, 1, 7, {.seed = kEarly, .shared = 64}, &rows, true, &line),
               ATTN_REPORT_ASYNC, {6, 0, 0}, line, "1 asynchronous copies that it never waited for");
  expect_fault(run_on_cpu(left_pending, 1, 7, {.seed = kEarly, .shared = 64}, &rows, false, &line),
               ATTN_REPORT_ASYNC, {6, 0, 0}, line, "nor committed");
}

}  // namespace
}  // namespace attn
