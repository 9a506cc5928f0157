// Tests the CUDA worker: copies to the device and back, faults, and the end of a slot. Skipped without a GPU.
#include <gmock/gmock.h>

#include <chrono>
#include <numeric>

#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

using ::testing::HasSubstr;

class CudaWorker : public ::testing::Test {
 protected:
  void open(const std::string& kernel) {
    WorkerOptions options = fake_options("device", kernel);
    options.worker = ATTNFUZZ_CUDA_WORKER;
    options.watchdog = kernel == "hang" ? 2 : 10;
    std::string error;
    target_ = open_target(options, &error);
    if (!target_ && error.find("no CUDA device") != error.npos) GTEST_SKIP() << error;
    ASSERT_TRUE(target_) << error;
    problem_.batch = problem_.heads_q = 1;
    problem_.seq_q = 64;
    problem_.dim_qk = 64;
    env_.compute_capability = 80;
    env_.sm_count = 7;
    env_.shared_memory_limit = 1 << 30;
    place(64, 64);
  }
  // Places Q and O at these byte offsets in their slots, with redzones of 256 bytes.
  void place(uint64_t q, uint64_t o) {
    ranges_.clear();
    tensors_.q.data = put(TensorId::kQ, q);
    tensors_.o.data = put(TensorId::kO, o);
    target_->memory(ranges_);
  }
  void* put(TensorId t, uint64_t at) {
    const uint64_t begin = Arena::slot_offset(t) + at;
    const uint64_t end = std::min(begin + kBytes + 256, Arena::slot_offset(t) + Arena::kSlotBytes);
    ranges_.push_back({t, begin - std::min<uint64_t>(at, 256), end});
    auto* p = static_cast<unsigned char*>(target_->arena().at(begin));
    std::memset(target_->arena().at(ranges_.back().begin), 0xcd, end - ranges_.back().begin);
    if (t == TensorId::kQ) p[kBytes - (at + kBytes == Arena::kSlotBytes)] = 0xab;  // not what O's redzone holds
    if (t == TensorId::kQ) std::iota(p, p + kBytes, static_cast<unsigned char>(1));
    return p;
  }
  RunReply run(int stream = 0) { return target_->run(Stage::kAll, problem_, tensors_, plan_, env_, stream); }
  unsigned char* o() { return static_cast<unsigned char*>(tensors_.o.data); }

  static constexpr uint64_t kBytes = 64 * 64 * 2;
  std::unique_ptr<Target> target_;
  attn_problem problem_ = {};
  attn_tensors tensors_ = {};
  attn_env env_ = {};
  attn_plan plan_ = {};
  std::vector<MemoryRange> ranges_;
};

#define OPEN(kernel) \
  open(kernel);      \
  if (!target_) return

TEST_F(CudaWorker, CopiesThereAndBack) {
  OPEN("copy");
  std::printf("%s\n", target_->info().device.c_str());
  for (const int stream : {0, 1}) {
    // Near a slot's beginning; at its end; 5 GiB into it, where strides beyond 2^31 lead.
    for (const uint64_t at : {uint64_t{64}, Arena::kSlotBytes - kBytes, (uint64_t{5} << 30) + 14}) {
      place(at, at);
      const RunReply reply = run(stream);
      ASSERT_EQ(reply.status, ATTN_OK);
      ASSERT_FALSE(reply.fault) << reply.fault->message;
      EXPECT_EQ(std::memcmp(tensors_.q.data, o(), kBytes), 0);
      EXPECT_EQ(o()[-1], 0xcd) << "redzone";
      if (at + kBytes < Arena::kSlotBytes) EXPECT_EQ(o()[kBytes], 0xcd) << "redzone";
    }
  }
}

TEST_F(CudaWorker, PlansWithinTheDevice) {
  OPEN("copy");
  const PlanReply reply = target_->plan(problem_, tensors_, env_);
  ASSERT_EQ(reply.status, ATTN_OK) << reply.reason;
  EXPECT_EQ(reply.plan.tile_q, 80) << "an older path runs on a newer device";
  EXPECT_EQ(reply.plan.split_tiles, 7) << "multiprocessors come from the case";
  EXPECT_LT(reply.plan.tile_k, 1 << 20) << "the limit of shared memory is the device's";
}

TEST_F(CudaWorker, BringsARedzoneBackThatWasWritten) {
  OPEN("copy-more");
  ASSERT_EQ(run().status, ATTN_OK);
  EXPECT_EQ(o()[kBytes], 0xab);
}

TEST_F(CudaWorker, FaultsPastASlotsEnd) {
  OPEN("copy-more");
  place(64, Arena::kSlotBytes - kBytes);
  const RunReply reply = run();
  EXPECT_EQ(reply.status, ATTN_FAULT);
  ASSERT_TRUE(reply.fault);
  EXPECT_EQ(reply.fault->kind, ATTN_REPORT_DEVICE);
  EXPECT_THAT(reply.fault->message, HasSubstr("cudaErrorIllegalAddress"));
  place(64, 64);
  EXPECT_EQ(run().status, ATTN_OK) << "on a fresh worker";
}

TEST_F(CudaWorker, ReportsAnIllegalAddressAndStartsAnew) {
  OPEN("illegal");
  for (int i = 0; i < 2; ++i) {
    const RunReply reply = run();
    ASSERT_TRUE(reply.fault);
    EXPECT_EQ(reply.fault->kind, ATTN_REPORT_DEVICE);
    EXPECT_FALSE(reply.crash || reply.timed_out);
  }
}

TEST_F(CudaWorker, PassesARefusedLaunchOn) {
  OPEN("too-large");
  const RunReply reply = run();
  EXPECT_EQ(reply.status, ATTN_LAUNCH_FAILED);
  EXPECT_FALSE(reply.fault) << reply.fault->message;
}

TEST_F(CudaWorker, TimesOutAKernelThatHangs) {
  OPEN("hang");
  EXPECT_TRUE(run().timed_out);
}

TEST_F(CudaWorker, RefusesACaseThatIsTooLargeForTheDevice) {
  OPEN("copy");
  std::vector<MemoryRange> all;
  for (int t = 0; t < kTensorCount; ++t) {
    const uint64_t begin = Arena::slot_offset(static_cast<TensorId>(t));
    all.push_back({static_cast<TensorId>(t), begin, begin + Arena::kSlotBytes});
  }
  target_->memory(all);
  const PlanReply reply = target_->plan(problem_, tensors_, env_);
  EXPECT_EQ(reply.status, ATTN_UNSUPPORTED);
  EXPECT_THAT(reply.reason, HasSubstr("of device memory"));
}

// Prints the overhead of a small case, and asserts nothing. Expected: at most 150 microseconds.
TEST_F(CudaWorker, OverheadOfASmallCase) {
  OPEN("copy");
  for (int i = 0; i < 50; ++i) run();
  double kernel = 0;
  constexpr int kRuns = 500;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) kernel += run().seconds;
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("a small run: %.1f us, of which the kernel %.1f us\n", all / kRuns * 1e6, kernel / kRuns * 1e6);
}

}  // namespace
}  // namespace attnfuzz
