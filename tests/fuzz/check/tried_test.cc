// Tests that limits are found by running a function (tried.h), and that narrow holes are filled
// (sizes_taken.h).
#include "fuzz/check/takes/tried.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "fuzz/check/takes/sizes_taken.h"
#include "properties/case/words.h"
#include "reference/model/arithmetic_table.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

enum class End {
  kWell,
  kThrows,
  kAborts,
  kExits,
  kLaunchFails,
  kWritesNothing,
  kSegfaults,
  kHangs,
  kReadsOutside
};

RunReply reply_of(End end) {
  RunReply reply;
  reply.status = ATTN_FAULT;
  const auto fault = [&](attn_report_kind kind, const char* message) {
    reply.fault = Fault{kind, {}, {}, message, "mine.cu", 1};
  };
  switch (end) {
    case End::kThrows:
      fault(ATTN_REPORT_DEVICE, "it threw: no such problem");
      break;
    case End::kLaunchFails:
      fault(ATTN_REPORT_LAUNCH, "a block of 1056 threads");
      break;
    case End::kReadsOutside:
      fault(ATTN_REPORT_ADDRESS, "a read beyond K");
      break;
    case End::kAborts:
      reply.crash = "SIGABRT in run()", reply.exit_reason = ExitReason::kSignal;
      break;
    case End::kSegfaults:
      reply.crash = "SIGSEGV in run()", reply.exit_reason = ExitReason::kSignal;
      break;
    case End::kExits:
      reply.crash = "exit status 3 in run()", reply.exit_reason = ExitReason::kExit;
      break;
    case End::kHangs:
      reply.timed_out = true;
      break;
    case End::kWell:
    case End::kWritesNothing:
      reply.status = ATTN_OK;
  }
  return reply;
}

// A function that is right for problems that `takes` accepts, and ends with `end` for others. It declares what
// an adapter declares by default.
class Function : public FakeTarget {
 public:
  using Takes = std::function<bool(const attn_problem&, const attn_env&)>;
  Function(Takes takes, End end) : takes_(std::move(takes)), end_(end) {
    take_fp32();
    info_ = FakeTarget::info();
    attn_domain domain = {};
    domain.size = sizeof domain;
    domain.dtypes = 7;
    domain.batch = domain.heads_q = {1, 128, 1, 0, {}};
    domain.seq_q = domain.seq_k = domain.dim_qk = domain.dim_v = {1, 0, 1, 0, {}};
    domain.group.count = 1, domain.group.list[0] = 1;
    domain.equal_dims = 1;
    info_.domain = domain;
  }
  const KernelInfo& info() const override { return info_; }
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, tensors, env);
    if (p.dim_qk != p.dim_v || p.heads_q != p.heads_kv || p.seq_q < 1 || p.seq_k < 1 || p.batch < 1)
      reply.status = ATTN_UNSUPPORTED, reply.reason = "it is not declared";
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    ++runs;
    if (!takes_(p, env)) return reply_of(end_);
    if (p.seq_q * p.seq_k > 70'000) return reply_of(End::kHangs);  // a slow function looks like this
    return FakeTarget::run(stage, p, tensors, plan, env, stream);
  }
  std::string found(const ByNumbers& judged = {}) {
    const Tried tried = try_function(*this, 20, judged);
    EXPECT_GE(tried.runs, runs);
    if (!tried.found) return "nothing: " + elsewhere(tried);
    return join(statements(tried, *info_.domain), "; ");
  }
  void set_align(int32_t align) { info_.domain->align = align; }
  void set_causal(int32_t causal) { info_.domain->causal = causal; }
  int runs = 0;

 private:
  Takes takes_;
  End end_;
  KernelInfo info_;
};

bool takes_64_and_128(const attn_problem& p, const attn_env&) { return p.dim_qk == 64 || p.dim_qk == 128; }

TEST(Tried, FindsWhatAFunctionTakesHoweverItSaysNo) {
  for (const End end : {End::kThrows, End::kAborts, End::kExits, End::kLaunchFails, End::kWritesNothing}) {
    EXPECT_EQ(Function(takes_64_and_128, end).found(), "dim = one_of(64, 128)");
  }
}

TEST(Tried, TakesNoBugForALimit) {
  for (const End end : {End::kSegfaults, End::kReadsOutside}) {
    EXPECT_EQ(Function(takes_64_and_128, end).found(), "") << static_cast<int>(end);
  }
  // A hang is no limit, and after some hangs the function is not run any more.
  Function hangs(takes_64_and_128, End::kHangs);
  EXPECT_EQ(hangs.found(), "nothing: ");
  EXPECT_LE(hangs.runs, 10);
}

TEST(Tried, FindsFormatsLengthsAndDevices) {
  const auto found = [](const Function::Takes& takes) { return Function(takes, End::kThrows).found(); };
  EXPECT_EQ(found([](auto& p, auto&) { return p.dtype == ATTN_F32; }), "format = Formats::kF32");
  EXPECT_EQ(found([](auto& p, auto&) { return p.dtype != ATTN_BF16 && p.dim_qk <= 64; }),
            "format = Formats::kF16 | Formats::kF32; dim = at_most(64)");
  EXPECT_EQ(found([](auto& p, auto&) { return p.seq_q == p.seq_k; }), "equal_lengths = true");
  EXPECT_EQ(found([](auto& p, auto&) { return p.seq_q == p.seq_k && p.seq_q % 64 == 0; }),
            "seq = multiple_of(64); equal_lengths = true");
  EXPECT_EQ(found([](auto& p, auto&) { return p.heads_q == 1 && p.batch <= 4; }),
            "batch = at_most(4); heads = one_of(1)");
  EXPECT_EQ(found([](auto& p, auto&) { return p.causal != 0; }), "causal = Causal::kOnly");
  EXPECT_EQ(found([](auto& p, auto& env) { return p.dim_qk < 128 || env.shared_memory_limit > 120'000; }),
            "shared = 166912");
  EXPECT_EQ(found([](auto&, auto&) { return true; }), "");
  EXPECT_EQ(found([](auto&, auto&) { return false; }),
            "nothing: it threw: no such problem (f32 B 1 H 1 S 16 D 32)");
}

TEST(Tried, AsksInsideTheCallersDomain) {
  Function f([](auto& p, auto& env) { return p.dim_qk <= 64 || env.shared_memory_limit > 120'000; },
             End::kThrows);
  attn_domain terms = *f.info().domain;
  terms.dim_qk = terms.dim_v = {1, 64, 1, 0, {}};
  f.terms = terms;
  EXPECT_EQ(f.found(), "") << "larger dims need a large device, and are not asked for";
}

TEST(Tried, FillsANarrowHoleSoThatACheckFindsIt) {
  const auto found = [](int64_t dim) {
    return Function([&](auto& p, auto&) { return p.dim_qk % 8 == 0 && p.dim_qk != dim; }, End::kAborts).found();
  };
  EXPECT_EQ(found(96), "dim = multiple_of(8)");
  EXPECT_EQ(found(100), "dim = multiple_of(8)");
  const auto filled = [](std::vector<int64_t> taken) {
    fill_narrow_holes({32, 64, 96, 128, 160, 192, 224, 256}, taken);
    return taken;
  };
  EXPECT_EQ(filled({32, 64, 96, 128, 192, 256}).size(), 6u) << "two of eight are a declaration";
  EXPECT_EQ(filled({32, 64, 128, 160, 192, 224, 256}).size(), 8u) << "one of eight is a hole";
}

TEST(Tried, JudgesLengthsIfTheCallNamesNone) {
  // Right if the lengths are equal; otherwise it takes the number of queries for the number of keys.
  class QueriesForKeys : public Function {
   public:
    QueriesForKeys() : Function([](auto&, auto&) { return true; }, End::kWell) {}
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      attn_problem other = p;
      other.seq_k = std::min(p.seq_k, p.seq_q);
      other.scale *= p.seq_k > other.seq_k || p.seq_q > p.seq_k ? 2 : 1;
      return Function::run(stage, other, tensors, plan, env, stream);
    }
  };
  const Calibration calibration = executor();
  EXPECT_EQ(QueriesForKeys().found({.table = &calibration, .lengths = true}), "equal_lengths = true");
  EXPECT_EQ(QueriesForKeys().found(), "") << "lengths are named in the call";
  // A function that is right with more keys than queries has no limit to equal lengths.
  Function some([](auto&, auto&) { return true; }, End::kWell);
  EXPECT_EQ(some.found({.table = &calibration, .lengths = true}), "");
}

TEST(Tried, FindsABottomRightCausalMask) {
  // Its mask is always bottom-right; with `half` only if there is more than one query.
  class Masked : public Function {
   public:
    explicit Masked(bool half) : Function([](auto&, auto&) { return true; }, End::kWell), half_(half) {
      set_align(1 + ATTN_TOP_LEFT);
    }
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& tensors, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      attn_problem other = p;
      other.align = half_ && p.seq_q == 1 ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
      return Function::run(stage, other, tensors, plan, env, stream);
    }

   private:
    const bool half_;
  };
  const Calibration calibration = executor();
  const ByNumbers judged = {.table = &calibration, .align = true};
  EXPECT_EQ(Masked(false).found(judged), "align = ATTN_BOTTOM_RIGHT");
  EXPECT_EQ(Masked(false).found(), "");
  EXPECT_EQ(Masked(true).found(judged), "") << "neither reading is right: a bug";
  Masked windowed(false);
  windowed.set_causal(1);  // never: its window tells
  EXPECT_EQ(windowed.found(judged), "align = ATTN_BOTTOM_RIGHT");
}

}  // namespace
}  // namespace attnfuzz
