// The screen's kernels, run by the CPU executor beside kernels of which the judge knows all flaws: what they
// lay out is what LaidOut does, and what they say of a run is what a trial does. (On a GPU: attnfuzz bench
// --batch.)
#include "fuzz/screen/screen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "fuzz/screen/device.h"
#include "fuzz/screen/kernels.h"
#include "fuzz/screen/prepare.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"
#include "properties/memory/layout.h"
#include "tests/properties/support/fake_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

// A screen in this process, on the executor, of a fake's kernel.
class FakeScreen : public Screening {
 public:
  explicit FakeScreen(FakeTarget& fake) {
    fake_ = &fake;
    disturb = false;
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
      return reply.status;
    };
    std::string why;
    device_ = screen::open_device(&why);
    EXPECT_TRUE(device_) << why;
  }
  std::string why_no_screen() override { return ""; }
  std::string plan(std::span<const screen::Call> calls, std::span<screen::Result> results) override {
    return device_->plan(kernel_, [](void*, attn_env&) {}, nullptr, calls, results).value_or("");
  }
  std::string run(std::span<const screen::Call> calls, std::span<screen::Result> results) override {
    if (!fault.empty()) return fault;
    return device_->run(kernel_, [](void*, attn_env&) {}, nullptr, calls, results).value_or("");
  }

  static inline bool disturb;  // O's first element, in the screen alone
  std::string fault;           // what every batch ends with

 private:
  static inline FakeTarget* fake_;
  std::unique_ptr<screen::Device> device_;
  attn_kernel kernel_ = {};
};

// As drawn, without what a screen leaves to others; a row takes the executor some milliseconds.
std::vector<Case> cases_for_it(size_t count, int64_t most_rows) {
  std::vector<Case> cases;
  for (uint64_t seed = 1; cases.size() < count; ++seed) {
    Case c = random_case(seed);
    c.problem.bias.reset();
    c.problem.mask.reset();
    c.problem.key_lengths.reset();
    c.nan_beyond_lengths = false;
    c.planted.clear();
    c.calls = {attnfuzz::Call{}};
    for (TensorLayout& layout : c.layout) {
      layout.placement = Placement::kGuarded;
      layout.spread = 0;
    }
    std::string why;
    const Problem& p = c.problem;
    if (p.batch * p.heads_q * p.seq_q > most_rows || illegal(c)) continue;
    if (screen::prepare(c, ATTN_CPU, &why)) cases.push_back(c);
  }
  return cases;
}

Verdict ordinary(const Case& c, Target& target) {
  return judge(c, *find_property("reference"), target, documented());
}

TEST(Screen, LaysOutWhatLaidOutDoes) {
  Arena arena;
  std::vector<Case> cases = cases_for_it(60, 1000);
  // Every kind of fill in both formats, larger, smaller and as it is.
  for (int kind = 0; kind < kFillKinds; ++kind) {
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      Case c;
      c.problem.dtype = dtype;
      c.problem.batch = c.problem.heads_q = 2;
      c.problem.seq_q = c.problem.seq_k = 19;
      c.problem.dim_qk = c.problem.dim_v = 17;
      int exponent = -12;
      for (Fill* fill : {&c.q, &c.k, &c.v})
        *fill = {.kind = static_cast<FillKind>(kind),
                 .exponent = exponent += 6,
                 .seed = 77u + static_cast<uint64_t>(kind)};
      cases.push_back(c);
    }
  }
  for (const Case& c : cases) {
    std::string why;
    const auto call = screen::prepare(c, ATTN_CPU, &why);
    ASSERT_TRUE(call) << why;
    std::vector<std::byte> slot(call->bytes + 4096);
    screen::Work work = {};
    screen::Counts counts;
    work.problem = call->problem;
    std::ranges::copy(call->tensor, work.tensor);
    std::ranges::copy(call->fill, work.fill);
    work.slot = slot.data() + (-reinterpret_cast<uintptr_t>(slot.data()) & 4095);
    work.counts = &counts;
    work.input.stride_qk = work.input.stride_v = 16;
    attn_env env = {};
    env.size = sizeof env;
    env.shared_memory_limit = 48 * 1024;
    ASSERT_EQ(lay_out(work, &env), ATTN_OK);
    const LaidOut laid(c, arena);
    int tensors = 0;
    for (const MemoryRange& range : laid.ranges()) {
      const screen::Place& place = call->tensor[static_cast<int>(range.tensor)];
      ASSERT_EQ(place.end - place.begin, range.end - range.begin) << name_of(range.tensor);
      ASSERT_EQ(std::memcmp(work.slot + place.begin, arena.at(range.begin), range.end - range.begin), 0)
          << name_of(range.tensor) << " of a " << static_cast<int>(c.q.kind);
      ++tensors;
    }
    ASSERT_EQ(tensors, c.want_lse ? 5 : 4);
  }
}

TEST(Screen, SaysOfARightKernelWhatATrialDoes) {
  FakeTarget fake;
  FakeScreen device(fake);
  const Calibration calibration = documented();
  Screen screen(device, fake, calibration);
  const std::vector<Case> cases = cases_for_it(16, 40);
  const std::vector<Verdict> verdicts = screen.judge(cases);
  ASSERT_EQ(verdicts.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Verdict v = ordinary(cases[i], fake);
    EXPECT_EQ(verdicts[i].outcome, v.outcome) << verdicts[i].message;
    EXPECT_NEAR(verdicts[i].worst, v.worst, 1e-5);
    EXPECT_EQ(verdicts[i].rows, v.rows);
    EXPECT_EQ(verdicts[i].sampled, v.sampled);
    EXPECT_EQ(verdicts[i].dead_rows, v.dead_rows);
    EXPECT_EQ(verdicts[i].uninformative_rows, v.uninformative_rows);
    EXPECT_EQ(verdicts[i].unconstrained_rows, v.unconstrained_rows);
    EXPECT_EQ(verdicts[i].assumptions, v.assumptions);
    EXPECT_STREQ(verdicts[i].plan.path, v.plan.path);
  }
  EXPECT_GT(screen.use().screened, cases.size() / 2);
  EXPECT_GE(screen.use().both, 1u);
  EXPECT_EQ(screen.use().doubted, 0u);
}

TEST(Screen, DoubtsEveryCaseThatATrialFails) {
  // A tile and a key, more heads than kv heads, other rows of K than of V; and rows that see no key.
  std::vector<Case> cases(2);
  cases[0].problem.heads_q = 4;
  cases[0].problem.heads_kv = 2;
  cases[0].problem.seq_q = 6;
  cases[1].problem.seq_q = 19;
  for (Case& c : cases) {
    c.problem.seq_k = 17;
    c.problem.dim_qk = 5;
    c.problem.dim_v = 7;
    c.problem.causal = true;
    c.problem.align = ATTN_BOTTOM_RIGHT;
    c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;
    c.q.seed = 1, c.k.seed = 2, c.v.seed = 3;
  }
  for (const Flaw flaw : {Flaw::kDropsLastKey, Flaw::kWholeTileLost, Flaw::kHeadMap, Flaw::kAlignIgnored,
                          Flaw::kLseBase, Flaw::kNanOnDeadRow, Flaw::kConstantAdded, Flaw::kWritesPast,
                          Flaw::kSkipsLastRow, Flaw::kSkipsLse, Flaw::kWritesInput, Flaw::kPlanNonsense}) {
    FakeTarget fake(flaw);
    FakeScreen device(fake);
    const Calibration calibration = documented();
    const std::vector<Verdict> verdicts = Screen(device, fake, calibration).judge(cases);
    int failures = 0;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Verdict v = ordinary(cases[i], fake);
      EXPECT_EQ(verdicts[i].kind, v.kind)
          << to_string(flaw) << ": " << verdicts[i].message << " / " << v.message;
      failures += v.outcome == Outcome::kFail;
    }
    EXPECT_GT(failures, 0) << to_string(flaw);
  }
}

TEST(Screen, OfABatchThatIsLostEveryCaseIsJudgedByItself) {
  FakeTarget fake(Flaw::kCrashes);
  FakeScreen device(fake);
  device.fault = "CUDA error 700";
  const Calibration calibration = documented();
  Screen screen(device, fake, calibration);
  std::vector<Case> cases(3);
  cases[0].problem.seq_k = cases[2].problem.seq_k = 5;
  cases[1].problem.seq_k = 17;
  std::vector<Verdict> verdicts = screen.judge(cases);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kPass);
  EXPECT_EQ(verdicts[1].kind, Kind::kCrash);
  EXPECT_EQ(verdicts[2].outcome, Outcome::kPass);
  // A fault that none of them has by itself is not passed over.
  cases[1].problem.seq_k = 5;
  verdicts = screen.judge(cases);
  EXPECT_EQ(verdicts[0].kind, Kind::kCrash);
  EXPECT_NE(verdicts[0].message.find("CUDA error 700"), std::string::npos);
}

TEST(Screen, WhatIsWrongThereAloneIsAFailureOfItsOwn) {
  FakeTarget fake;
  FakeScreen device(fake);
  FakeScreen::disturb = true;
  const Calibration calibration = documented();
  Case c;
  c.problem.seq_q = c.problem.seq_k = 20;
  const std::vector<Verdict> verdicts = Screen(device, fake, calibration).judge(std::span(&c, 1));
  EXPECT_EQ(verdicts[0].kind, Kind::kOracle) << verdicts[0].message;
}

TEST(Screen, ThreadsJudgeWhatIsDrawnAndTellOfItLate) {
  FakeTarget fake;
  FakeScreen device(fake);
  const Calibration calibration = documented();
  std::vector<Case> cases(3);
  for (Case& c : cases) c.problem.seq_q = c.problem.seq_k = 20;
  // Theirs is of another kernel: wrong, so the screen that passed the first case, which is always drawn, was.
  for (const Flaw flaw : {Flaw::kNone, Flaw::kConstantAdded}) {
    Screen screen(device, fake, calibration, 1, [&] { return std::make_unique<FakeTarget>(flaw); }, 2);
    EXPECT_TRUE(screen.late(true).empty());
    for (const Verdict& v : screen.judge(cases)) EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
    const std::vector<Late> late = screen.late(true);
    ASSERT_EQ(late.size(), flaw == Flaw::kNone ? 0u : 1u);
    if (late.empty()) continue;
    EXPECT_EQ(late[0].number, 0u);
    EXPECT_EQ(late[0].verdict.kind, Kind::kOracle) << late[0].verdict.message;
  }
}

}  // namespace
}  // namespace attnfuzz
