// Tests the parts of fuzz targets: units, counters, and the bench that judges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fuzz/targets/counters.h"
#include "fuzz/targets/target.h"
#include "fuzz/targets/unit.h"
#include "properties/case/codec/codec.h"
#include "properties/reduce/reproducer.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

// The harness needs a target; no kernel is opened here.
extern const FuzzTarget kFuzzTarget = {"none", {}, nullptr};

namespace {

using ::testing::HasSubstr;

std::string reproducer_of_case(const Case& c) {
  Reproducer r;
  r.c = c;
  r.property = "reference";
  r.kernel = "fa1";
  r.kind = "wrong";
  r.message = "some";
  return encode(r, "some.attn.json");
}

TEST(Unit, IsACaseOrTheCaseOfAReproducer) {
  const GeneratorConfig config;
  for (uint64_t i = 0; i < 50; ++i) {
    const Case c = draw(config, 1, i);
    EXPECT_EQ(case_of(encode(c)), c);
    EXPECT_EQ(case_of(reproducer_of_case(c)), c);
  }
}

// A corpus of another version is refused with its reason, never read as something else.
TEST(Unit, OfAnotherFormatVersionIsRefused) {
  for (const char* version : {"0", "2", "99", "-1", "1.0", "\"1\"", "null", "true", "[1]"}) {
    std::string why;
    EXPECT_FALSE(case_of(std::string(R"({"format":)") + version + R"(,"problem":{"seq_q":5}})", &why))
        << version;
    EXPECT_THAT(why, HasSubstr(std::string("format is "))) << version;
    EXPECT_THAT(why, HasSubstr("must be 1")) << version;

    std::string text = reproducer_of_case(Case{});
    const std::string field = "\"reproducer\": 1";
    ASSERT_NE(text.find(field), text.npos);
    text.replace(text.find(field), field.size(), std::string("\"reproducer\": ") + version);
    EXPECT_FALSE(case_of(text, &why)) << version;
    EXPECT_THAT(why, HasSubstr("this version reads format 1")) << version;
  }
  std::string why;
  EXPECT_FALSE(case_of(R"({"problem":{"seq_q":5}})", &why));
  EXPECT_THAT(why, HasSubstr("format is missing"));
  // A reproducer that holds a case of another version.
  std::string text = reproducer_of_case(Case{});
  const size_t at = text.find("\"format\": 1");
  ASSERT_NE(at, text.npos);
  text.replace(at, 11, "\"format\": 2");
  EXPECT_FALSE(case_of(text, &why));
  EXPECT_THAT(why, HasSubstr("case: format is 2, must be 1"));
}

TEST(Unit, MutationsDecodeAndAreTheSameForASeed) {
  const GeneratorConfig config;
  std::string unit = encode(draw(config, 2, 0));
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string next = mutated(unit, config, seed, 4096);
    EXPECT_EQ(mutated(unit, config, seed, 4096), next);
    const auto c = case_of(next);
    ASSERT_TRUE(c) << next;
    EXPECT_EQ(illegal(*c), std::nullopt);
    EXPECT_EQ(encode(*c), next);
    seen.insert(next);
    const std::string child = crossed(unit, next, config, seed, 4096);
    ASSERT_TRUE(case_of(child)) << child;
    unit = next;
  }
  EXPECT_GE(seen.size(), 290u);
}

TEST(Unit, OtherBytesBecomeADrawnCase) {
  const GeneratorConfig config;
  const std::string simplest = encode(Case{});
  std::set<std::string> seen;
  for (const char* bytes : {"", "\n", "{", "no JSON at all", R"({"format":2})"}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const std::string next = mutated(bytes, config, seed, 4096);
      ASSERT_TRUE(case_of(next));
      EXPECT_NE(next, simplest);
      seen.insert(next);
      EXPECT_TRUE(case_of(crossed(bytes, next, config, seed, 4096)));
      EXPECT_TRUE(case_of(crossed(next, bytes, config, seed, 4096)));
      EXPECT_TRUE(case_of(crossed(bytes, bytes, config, seed, 4096)));
    }
  }
  EXPECT_GE(seen.size(), 20u);
}

TEST(Unit, FitsItsRoom) {
  const GeneratorConfig config;
  const std::string unit = encode(draw(config, 3, 3));
  for (const size_t most : {0u, 5u, 12u, 200u, 400u, 4096u}) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const std::string next = mutated(unit, config, seed, most);
      EXPECT_LE(next.size(), most);
      EXPECT_TRUE(next.empty() || case_of(next));
      EXPECT_LE(crossed(unit, unit, config, seed, most).size(), most);
    }
  }
  EXPECT_EQ(mutated(unit, config, 1, 5), "");
  EXPECT_EQ(mutated(unit, config, 1, 12), encode(Case{}));
}

std::unique_ptr<Bench> bench_of(Flaw flaw = Flaw::kNone) {
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(std::make_unique<FakeTarget>(flaw));
  return std::make_unique<Bench>(std::move(targets));
}

TEST(Bench, DrawsBordersOfTheKernelsTiles) {
  const auto bench = bench_of();
  EXPECT_EQ(bench->config().tiles_k, std::vector<int64_t>{FakeTarget::kTileK});
  EXPECT_TRUE(bench->config().splits);
  EXPECT_GT(bench->most().work, bench->config().work);
}

TEST(Bench, JudgesInTheKernelsBuildAndLightsSituations) {
  const auto bench = bench_of();
  const Lit before = lit_counters();
  Case c;
  c.build_kind = "some other";
  c.problem.seq_q = c.problem.seq_k = 17;
  const Judged judged = bench->judge(0, c, "reference");
  EXPECT_EQ(judged.verdict.outcome, Outcome::kPass) << judged.verdict.message;
  EXPECT_EQ(judged.c.build_kind, bench->target(0).info().build_kind);
  EXPECT_GE(lit_counters().situations, before.situations + 5);
}

class ScheduledTarget : public FakeTarget {
 public:
  ScheduledTarget() : scheduled_(FakeTarget::info()) { scheduled_.build_kind = "schedules"; }
  const KernelInfo& info() const override { return scheduled_; }

 private:
  KernelInfo scheduled_;
};

// The order of threads comes from all bits of the case's seed but the last two.
TEST(Bench, KeepsTheOrderOfACase) {
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(std::make_unique<ScheduledTarget>());
  Bench bench(std::move(targets));
  Case c;
  for (const uint64_t seed : {0x120u, 0x340u, 0xfff4u}) {
    c.env.schedule_seed = seed;
    EXPECT_EQ(bench.judge(0, c, "reference").c.env.schedule_seed, seed | 2);
  }
}

TEST(Bench, ACaseThatThePropertyDoesNotCoverIsRejected) {
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(std::make_unique<FakeTarget>(Flaw::kNone, false));
  Bench without_stages(std::move(targets));
  EXPECT_FALSE(without_stages.config().splits);
  EXPECT_EQ(without_stages.judge(0, Case{}, "stages").verdict.outcome, Outcome::kRefused);
  EXPECT_EQ(without_stages.judge(0, Case{}, "reference").verdict.outcome, Outcome::kPass);
}

TEST(Bench, AFailureThatNeedsItsHistoryIsToldFromOneThatDoesNot) {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 17;
  const auto wrong = bench_of(Flaw::kDropsLastKey);
  Judged judged = wrong->judge(0, c, "reference");
  ASSERT_EQ(judged.verdict.outcome, Outcome::kFail);
  EXPECT_EQ(needs_history(*wrong, judged), "");
  const auto right = bench_of();
  EXPECT_THAT(needs_history(*right, judged), HasSubstr("replay the unit"));
  judged.verdict.property = "differential";
  EXPECT_THAT(needs_history(*right, judged), HasSubstr("two kernels"));
}

TEST(Counters, LightAnEdgeHoweverOftenItWasTaken) {
  const Lit before = lit_counters();
  const std::vector<uint8_t> buckets = {0, 1, 2 | 8, 128, 0, 64};
  count_edges(1, buckets);
  EXPECT_EQ(lit_counters().edges, before.edges + 4);
  count_edges(1, buckets);
  EXPECT_EQ(lit_counters().edges, before.edges + 4);
  count_edges(kCountedKernels, buckets);  // one kernel too many: it is ignored
  EXPECT_EQ(lit_counters().edges, before.edges + 4);
  count_edges(1, std::vector<uint8_t>(1 << 20, 0));  // more edges than are kept
}

}  // namespace
}  // namespace attnfuzz
