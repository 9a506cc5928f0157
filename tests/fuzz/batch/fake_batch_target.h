// Runs a batch of cases on a fake kernel, in this process, on the executor.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/device/device.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

// PageEnds of ordinary memory, and address ranges that get memory when they are written.
class PlainEnds : public batch::PageEnds {
 public:
  ~PlainEnds() override {
    for (std::byte* begin : far_)
      if (begin) munmap(begin, kFarBytes);
  }
  std::optional<std::string> reserve(int stretch) override {
    if (far_[stretch]) return std::nullopt;
    void* begin = mmap(nullptr, kFarBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) return "no addresses";
    far_[stretch] = static_cast<std::byte*>(begin);
    return std::nullopt;
  }
  std::optional<std::string> give_back() override { return std::nullopt; }
  std::optional<std::string> reach(std::span<const Far> wanted) override {
    for (const Far& one : wanted) {
      EXPECT_LT(one.begin, one.end);
      EXPECT_LE(one.end, kFarBytes);
      if (auto why = reserve(one.stretch)) return why;
      const uint64_t from = one.begin / 4096 * 4096;
      if (mprotect(far_[one.stretch] + from, one.end - from, PROT_READ | PROT_WRITE) != 0) return "no memory";
    }
    return std::nullopt;
  }
  std::byte* far(int stretch) override { return far_[stretch]; }
  std::optional<std::string> room(int stretch, uint64_t bytes) override {
    std::vector<std::byte>& memory = memory_[stretch];
    if (memory.size() < bytes + 4096) memory.resize(bytes + 4096);
    return std::nullopt;
  }
  std::byte* end(int stretch) override {
    std::byte* last = memory_[stretch].data() + memory_[stretch].size();
    return last - (reinterpret_cast<uintptr_t>(last) & 4095);
  }

 private:
  std::vector<std::byte> memory_[kStretches];
  std::byte* far_[kStretches] = {};
};

// The executor keeps its fibers for one thread of a process. So one thread makes every launch, for all threads.
class ExecutorThread {
 public:
  static void run(const std::function<void()>& work) {
    static ExecutorThread* one = nullptr;
    static pid_t process = 0;
    if (std::exchange(process, getpid()) != getpid()) one = new ExecutorThread;  // a fork has its own
    std::unique_lock lock(one->mutex_);
    one->work_ = &work;
    one->changed_.notify_all();
    one->changed_.wait(lock, [] { return one->work_ == nullptr; });
  }

 private:
  ExecutorThread() {
    std::thread([this] {
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return work_ != nullptr; });
        (*work_)();
        work_ = nullptr;
        changed_.notify_all();
      }
    }).detach();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
};

class FakeBatchTarget : public BatchTarget {
 public:
  explicit FakeBatchTarget(FakeTarget& fake) {
    fake_ = &fake;
    disturb = refuse = false;
    kernel_.size = sizeof kernel_;
    kernel_.plan = [](const attn_problem* p, const attn_tensors* t, const attn_env* env, attn_plan* plan, char*,
                      uint64_t) {
      const PlanReply reply = fake_->plan(*p, *t, *env);
      *plan = reply.plan;
      return reply.status;
    };
    kernel_.run = [](const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
      const RunReply reply = fake_->run(Stage::kAll, *p, *t, *plan, *env, 0);
      if (disturb) std::memset(t->o.data, 0x7b, 2);
      return refuse ? ATTN_UNSUPPORTED : reply.status;
    };
    std::string why;
    device_ = batch::open_device(std::make_unique<PlainEnds>(), &why);
    EXPECT_TRUE(device_) << why;
  }
  std::string why_no_batch() override { return ""; }
  std::string plan(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    std::string why;
    ExecutorThread::run(
        [&] { why = device_->plan(kernel_, [](void*, attn_env&) {}, nullptr, calls, results).value_or(""); });
    return why;
  }
  std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    if (!fault.empty() && faults != 0) return --faults, fault;
    std::string why;
    ExecutorThread::run([&] {
      why = device_->run(kernel_, [](void*, attn_env&) {}, nullptr, calls, results, readback_).value_or("");
    });
    for (const batch::Result& result : results) not_finite += result.counts.not_finite;
    return why;
  }
  std::span<const std::byte> readback() override { return readback_; }
  uint64_t not_finite = 0;  // non-finite inputs of all runs

  static inline bool disturb;  // changes O's first element, only in batches
  static inline bool refuse;   // run() refuses, only in batches
  std::string fault;           // the error with which a batch ends
  int faults = -1;             // the number of batches that end with it; below 0: all

 private:
  static inline FakeTarget* fake_;
  std::unique_ptr<batch::Device> device_;
  attn_kernel kernel_ = {};
  std::vector<std::byte> readback_ = std::vector<std::byte>(batch::kReadbackBytes);
};

// A fake kernel that judges batches too, as a worker on a GPU does.
template <class Fake>
class InBothWays : public Fake, public BatchTarget {
 public:
  using Fake::Fake;
  std::string why_no_batch() override { return inner_.why_no_batch(); }
  std::string plan(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    return inner_.plan(calls, results);
  }
  std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    return inner_.run(calls, results);
  }
  std::span<const std::byte> readback() override { return inner_.readback(); }
  using Fake::plan;
  using Fake::run;

 private:
  FakeBatchTarget inner_{*this};
};
using BothWays = InBothWays<FakeTarget>;

}  // namespace attnfuzz
