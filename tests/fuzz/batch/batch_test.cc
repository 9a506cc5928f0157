// Tests that a batch, with its kernels on the CPU executor, judges right kernels as a trial does, and what it
// counts. (On a GPU: attnfuzz bench --batch.)
#include <gtest/gtest.h>

#include <map>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/device/device.h"
#include "fuzz/batch/prepare.h"
#include "properties/draw/generator.h"
#include "properties/draw/long_rows.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"
#include "tests/fuzz/batch/cases.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/batch/same_as_alone.h"
#include "tests/properties/support/fake_target.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

TEST(BatchUse, SaysWhatTheOrdinaryWayTook) {
  BatchUse use;
  use.cleared = 100, use.run_s = 4, use.wait_s = 2, use.own_wait_s = 1, use.again_s = 3;
  use.map_s = 0.5, use.send_s = 0.2, use.launch_s = 0.1, use.flight_s = 3;
  use.again_by = {{BatchUse::kTwice, 2}, {"large", 0.95}, {"rare", 0.05}};
  const std::string text = words(use);
  EXPECT_NE(text.find("on the device 40 % (mapping memory 5 %, copying calls 2 %, launching 1 %, waiting for "
                      "the batch to end 30 %)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("waiting for the shared worker 20 % and for a worker of one's own 10 %"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("the ordinary way 30 % (judged twice 20 %, large 10 %)"), std::string::npos) << text;
}

TEST(BatchUse, TakesAwayWhatWasMerged) {
  BatchUse before;
  before.cleared = 7, before.left["large"] = 2, before.wait_s = 1.5, before.again_by["large"] = 0.25;
  before.map_s = 1, before.own_wait_s = 0.5;
  BatchUse use = before, more;
  more.cleared = 3, more.both = 1, more.left["large"] = 1, more.run_s = 4, more.again_by["large"] = 0.5;
  more.map_s = 2;
  use.merge(more);
  EXPECT_EQ(use.cleared, 10u);
  EXPECT_EQ(use.left.at("large"), 3u);
  EXPECT_EQ(use.again_by.at("large"), 0.75);
  use.take(before);
  EXPECT_EQ(use.cleared, 3u);
  EXPECT_EQ(use.both, 1u);
  EXPECT_EQ(use.left.at("large"), 1u);
  EXPECT_EQ(use.run_s, 4);
  EXPECT_EQ(use.wait_s, 0);
  EXPECT_EQ(use.map_s, 2);
  EXPECT_EQ(use.own_wait_s, 0);
  EXPECT_EQ(use.again_by.at("large"), 0.5);
}

TEST(BatchJudge, JudgesFewerLargeCasesTwice) {
  Problem p;
  p.batch = p.heads_q = p.heads_kv = 1, p.seq_q = p.seq_k = 1024, p.dim_qk = p.dim_v = 16;
  EXPECT_EQ(one_judged_twice_of(p), 100u) << "2^25 multiply-adds";
  p.seq_k = 1025;
  EXPECT_EQ(one_judged_twice_of(p), 1000u);
}

TEST(BatchJudge, SaysOfARightKernelWhatATrialDoes) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  fake.take_fp32();
  std::vector<Case> some = cases_for_it(30, 40);
  for (size_t n = 0; n < 30; n += 3) some[n].problem.dtype = ATTN_F32, some[n].planted.clear();
  for (Case& c : laid_oddly(some, 20)) some.push_back(std::move(c));
  // There may be no query, or no batch entry.
  Case& none = some.emplace_back();
  none.problem.seq_q = 0;
  none.problem.seq_k = 17;
  some.push_back(none);
  some.back().problem.batch = 0;
  const std::vector<BatchCase> cases = by_reference(some);
  const std::vector<Verdict> verdicts = batch_judge.judge(cases);
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
  EXPECT_GT(batch_judge.use().cleared, cases.size() / 2);
  EXPECT_GE(batch_judge.use().both, 1u);
  EXPECT_EQ(batch_judge.use().doubted, 0u);
  EXPECT_EQ(batch_judge.use().left.count("no head"), 0u);
}

// Nearly all packed and paged cases are laid out on the device, as they are drawn for batches.
TEST(BatchJudge, TakesPackedEntriesAndPages) {
  GeneratorConfig config;
  config.features = OracleTarget::kBatched;
  config.device_work = kDeviceWork, config.in_batches = true;
  std::map<std::string, int> left;
  int packed = 0, paged = 0;
  for (uint64_t n = 0; n < 3000; ++n) {
    const Case c = draw(config, 13, n);
    const Problem& p = c.problem;
    if (illegal(c) || (!p.packed_q && !p.packed_k && !p.paging)) continue;
    ++(p.paging ? paged : packed);
    std::string why;
    if (!batch::prepare(c, ATTN_CUDA, &why)) ++left[(p.paging ? "paged: " : "packed: ") + why];
  }
  int of_packed = 0, of_paged = 0;
  for (const auto& [why, count] : left) {
    (why.starts_with("paged") ? of_paged : of_packed) += count;
    std::printf("  left, %s: %d\n", why.c_str(), count);
  }
  std::printf("  left of %d packed and %d paged cases: %d and %d\n", packed, paged, of_packed, of_paged);
  EXPECT_LT(of_packed, packed / 150);
  EXPECT_LT(of_paged, paged / 50);
}

TEST(BatchJudge, SaysOfEveryKindOfForwardProblemWhatATrialDoes) {
  OracleTarget right(nullptr, OracleTarget::kBatched);
  EXPECT_EQ(expect_equal_verdicts(cases_with(OracleTarget::kBatched, 8, 48), right), 0);
}

TEST(BatchJudge, SaysOfMergesWhatATrialDoes) {
  const std::vector<Case> cases = merges(60, 60);
  OracleTarget right(nullptr, OracleTarget::kMerge);
  EXPECT_EQ(expect_equal_verdicts(cases, right), 0);
  const auto swapped = [](attn_problem&, attn_tensors& t) { std::swap(t.lse1, t.lse2); };
  OracleTarget wrong(swapped, OracleTarget::kMerge);
  EXPECT_GT(expect_equal_verdicts(cases, wrong), 20);
}

TEST(BatchJudge, MoreRunsThanABatchHoldsAreMadeInSeveralRounds) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  Case c;
  std::string why;
  const Property* repeat = find_property("repeat");
  ASSERT_TRUE(repeat->adapt(c, fake.info(), &why));
  const std::vector<BatchCase> asked(batch::kMostCalls, {c, repeat});  // two runs each, in one place
  BatchJudge batch_judge(device, fake, calibration);
  for (const Verdict& v : batch_judge.judge(asked)) EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ(batch_judge.use().cleared, asked.size());
}

TEST(BatchJudge, CasesOfALostBatchAreJudgedOneByOne) {
  FakeTarget fake(Flaw::kCrashes);
  FakeBatchTarget device(fake);
  device.fault = "CUDA error 700";
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  std::vector<Case> cases(3);
  cases[0].problem.seq_k = cases[2].problem.seq_k = 5;
  cases[1].problem.seq_k = 17;
  std::vector<Verdict> verdicts = batch_judge.judge(by_reference(cases));
  EXPECT_EQ(verdicts[0].outcome, Outcome::kPass);
  EXPECT_EQ(verdicts[1].kind, Kind::kCrash);
  EXPECT_EQ(verdicts[2].outcome, Outcome::kPass);
  // If the batch ends with a fault that no case has by itself, that is a failure.
  cases[1].problem.seq_k = 5;
  verdicts = batch_judge.judge(by_reference(cases));
  EXPECT_EQ(verdicts[0].kind, Kind::kCrash);
  EXPECT_NE(verdicts[0].message.find("CUDA error 700"), std::string::npos);
  EXPECT_NE(verdicts[0].message.find("ended badly 3 of 3 times"), std::string::npos) << verdicts[0].message;
  EXPECT_NE(verdicts[0].message.find("one that ends so in a batch of its own"), std::string::npos);
  // The message says so if the fault does not come again.
  device.faults = 1;
  verdicts = batch_judge.judge(by_reference(cases));
  EXPECT_EQ(verdicts[0].kind, Kind::kCrash);
  EXPECT_NE(verdicts[0].message.find("ended badly 0 of 3 times"), std::string::npos) << verdicts[0].message;
}

TEST(BatchJudge, MemoryThatADeviceLacksIsNoFaultOfTheKernel) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  device.fault = std::string(batch::kNoMemory) + "memory for a batch: CUDA error 2";
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  std::vector<Case> cases(3);
  for (Case& c : cases) c.problem.seq_q = c.problem.seq_k = 20;
  for (const Verdict& v : batch_judge.judge(by_reference(cases)))
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ(batch_judge.use().lost, 0u);
  EXPECT_EQ(batch_judge.use().left.at("too little free memory on the device"), 3u);
}

TEST(BatchJudge, AResultThatIsWrongOnlyInTheBatchIsAnOracleFailure) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  FakeBatchTarget::disturb = true;
  const Calibration calibration = documented();
  Case c;
  c.problem.seq_q = c.problem.seq_k = 20;
  const std::vector<Verdict> verdicts = BatchJudge(device, fake, calibration).judge(by_reference({c}));
  EXPECT_EQ(verdicts[0].kind, Kind::kOracle) << verdicts[0].message;
  EXPECT_NE(verdicts[0].message.find("(1 elements outside of their bound)"), std::string::npos)
      << verdicts[0].message;
}

TEST(BatchJudge, ARefusalInRunIsJudgedByATrial) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  FakeBatchTarget::refuse = true;
  const Calibration calibration = documented();
  Case c;
  c.problem.seq_q = c.problem.seq_k = 20;
  BatchJudge batch_judge(device, fake, calibration);
  EXPECT_EQ(batch_judge.judge(by_reference({c}))[0].outcome, Outcome::kPass);
  EXPECT_EQ(batch_judge.use().left.at("a refusal as it ran"), 1u);
  EXPECT_EQ(batch_judge.use().doubted, 0u);
}

TEST(BatchJudge, SaysThatMostRowsCannotBeJudgedAsATrialDoes) {
  FakeTarget fake;
  const Calibration calibration = documented();
  std::vector<Case> some;
  for (uint64_t seed = 1; some.size() < 3; ++seed) {
    const Case c = random_case(seed);
    std::string why;
    if (illegal(c) || c.problem.batch * c.problem.heads_q * c.problem.seq_q > 40) continue;
    if (!batch::prepare(c, ATTN_CPU, &why)) continue;
    if (ordinary(by_reference({c})[0], fake).outcome == Outcome::kNotJudged) some.push_back(c);
  }
  FakeBatchTarget device(fake);
  BatchJudge batch_judge(device, fake, calibration);
  for (const Verdict& v : batch_judge.judge(by_reference(some))) {
    EXPECT_EQ(v.outcome, Outcome::kNotJudged);
    EXPECT_NE(v.message.find("uninformative and"), std::string::npos) << v.message;
  }
  EXPECT_EQ(batch_judge.use().cleared, some.size());
  EXPECT_EQ(batch_judge.use().both, 1u);  // the first
}

TEST(BatchJudge, CountsNonFiniteInputsWithinTheLengths) {
  const Calibration calibration = documented();
  Case c;
  c.problem.batch = 2;
  c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.seq_q = 20;
  c.problem.seq_k = 70;
  c.problem.key_lengths = {{40, 70}};
  c.calls.resize(2);  // counted once
  for (const auto& [dtype, inf, nan] : {std::array<uint32_t, 3>{ATTN_F16, 0x7c00, 0xfe00},
                                        {ATTN_BF16, 0xff80, 0x7fc0},
                                        {ATTN_F32, 0x7f800000, 0xffc00000}}) {
    c.problem.dtype = static_cast<attn_dtype>(dtype);
    c.planted = {{TensorId::kQ, 1, 1, 19, 0, inf},
                 {TensorId::kK, 0, 1, 39, 0, nan},
                 {TensorId::kK, 0, 1, 40, 0, nan},  // beyond the entry's length
                 {TensorId::kV, 1, 0, 69, 0, nan}};
    for (const bool once : {false, true}) {  // true: both batch entries share K, and one sees key 40
      c.once.k.batch = once;
      FakeTarget fake;
      fake.take_fp32();
      FakeBatchTarget device(fake);
      BatchJudge(device, fake, calibration).judge(by_reference({c}));
      EXPECT_EQ(device.not_finite, once ? 5u : 3u);
    }
  }
}

TEST(BatchJudge, ThreadsJudgeWhatIsDrawnAndFailuresAreDeferred) {
  FakeTarget fake;
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  std::vector<Case> cases(3);
  for (Case& c : cases) c.problem.seq_q = c.problem.seq_k = 20;
  // The threads judge a sample again, on another kernel. If that kernel is wrong, the batch seems to be wrong
  // about the first case, which is always in the sample.
  for (const Flaw flaw : {Flaw::kNone, Flaw::kConstantAdded}) {
    BatchJudge batch_judge(device, fake, calibration, 1, [&] { return std::make_unique<FakeTarget>(flaw); }, 2);
    EXPECT_TRUE(batch_judge.deferred(true).empty());
    for (const Verdict& v : batch_judge.judge(by_reference(cases)))
      EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
    const std::vector<Deferred> deferred = batch_judge.deferred(true);
    ASSERT_EQ(deferred.size(), flaw == Flaw::kNone ? 0u : 1u);
    if (deferred.empty()) continue;
    EXPECT_EQ(deferred[0].number, 0u);
    EXPECT_EQ(deferred[0].verdict.kind, Kind::kOracle) << deferred[0].verdict.message;
  }
}

}  // namespace
}  // namespace attnfuzz
