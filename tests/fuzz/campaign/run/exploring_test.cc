// Tests a campaign on a kernel with several bugs: while one failure is reduced, jobs continue to judge cases.
// Only a limited number of failures may wait; further failures are counted.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <numeric>

#include "fuzz/campaign/run/campaign.h"
#include "fuzz/campaign/store/finding_list.h"
#include "fuzz/report/report.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Counters that the processes of the campaign share.
struct Counts {
  std::atomic<uint64_t> explored = 0;     // runs of the job
  std::atomic<uint64_t> went_on = 0;      // waits of the triage in which the job ran kMore cases
  std::atomic<uint64_t> stood_still = 0;  // waits in which the job ran fewer
};
constexpr uint64_t kMore = 200;

// Has three bugs: a crash, a fault, and a hang. Only the triage asks for a fresh worker (renew); its first two
// runs wait for the job.
class ThreeBugs : public FakeTarget {
 public:
  explicit ThreeBugs(Counts& counts) : counts_(counts) {}
  void renew() override { triage_ = true; }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    if (!triage_) {
      ++counts_.explored;
    } else if (waits_ < 2) {
      ++waits_;
      wait_for_the_job();
    }
    RunReply reply = FakeTarget::run(stage, problem, tensors, plan, env, stream);
    reply.status = ATTN_FAULT;
    if (problem.causal) {
      reply.crash = "SIGSEGV in run()";
    } else if (problem.softcap > 0) {
      reply.fault = Fault{ATTN_REPORT_DEADLOCK, {}, {}, "a barrier", "some.cu", 12};
    } else {
      reply.timed_out = true;
    }
    return reply;
  }

 private:
  void wait_for_the_job() {
    const uint64_t before = counts_.explored;
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (counts_.explored < before + kMore && Clock::now() < end) usleep(1000);
    ++(counts_.explored >= before + kMore ? counts_.went_on : counts_.stood_still);
  }

  Counts& counts_;
  bool triage_ = false;
  int waits_ = 0;
};

class Exploring : public ::testing::Test {
 protected:
  Exploring() {
    std::string name = (fs::temp_directory_path() / "exploring-XXXXXX").string();
    options_.dir = mkdtemp(name.data());
    options_.seconds = 300;
    options_.reduce_seconds = 1;
    options_.drain_seconds = 0;
    target_.record.name = "fake.cpu.plain";
    target_.record.kernel = target_.folder = "fake";
    target_.record.backend = "cpu";
    target_.record.build_kind = "plain";
    target_.info = FakeTarget().info();
    target_.open = [this](std::string*) { return std::make_unique<ThreeBugs>(counts_); };
    target_.calibration = executor();
    target_.properties = {find_property("reference")};
  }
  ~Exploring() override {
    fs::remove_all(options_.dir);
    munmap(&counts_, sizeof(Counts));
  }

  // Ends as soon as the triage has waited twice and one failure is a finding.
  CampaignSummary run() {
    return run_campaign(
        options_, {target_}, [](const std::string&) {},
        [&](const CampaignState& state) {
          states_.push_back(state);
          if (counts_.went_on + counts_.stood_still >= 2 && state.findings > 0) raise(SIGTERM);
        });
  }

  Counts& counts_ =
      *new (mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counts;
  CampaignOptions options_;
  CampaignTarget target_;
  std::vector<CampaignState> states_;
};

TEST_F(Exploring, GoesOnWhileFailuresWaitToBeReduced) {
  const CampaignSummary summary = run();
  EXPECT_EQ(summary.ended, "interrupted");
  EXPECT_GE(counts_.went_on, 2u);
  EXPECT_EQ(counts_.stood_still, 0u) << "no case was judged while a failure was being reduced";

  constexpr uint64_t kMostOfOneKind = 12, kKindsOfBugs = 3;
  uint64_t most_waited = 0;
  for (const CampaignState& state : states_) most_waited = std::max(most_waited, state.waiting);
  EXPECT_GT(most_waited, 0u);
  EXPECT_LE(most_waited, kKindsOfBugs * kMostOfOneKind);

  // Failures beyond those that may wait are counted, and status and report tell how many.
  const report::Report report = report::read_report(options_.dir);
  const TargetStats& stats = report.targets.at("fake.cpu.plain");
  const auto not_filed = std::accumulate(stats.not_filed.begin(), stats.not_filed.end(), uint64_t{0},
                                         [](uint64_t sum, const auto& kind) { return sum + kind.second; });
  EXPECT_GT(not_filed, 0u);
  const Json told = report::summary_json(report);
  EXPECT_EQ(told.at("not_filed"), not_filed);
  uint64_t filed = 0;
  for (const report::Shard& shard : report.shards) filed += report::last_of(shard).crashes;
  EXPECT_EQ(told.at("failed"), filed + not_filed + stats.of_one_site)
      << "each failure is either filed or counted";
  ASSERT_FALSE(summary.not_judged.empty());
  EXPECT_NE(summary.not_judged[0].find("failure(s) were counted and never looked at"), std::string::npos);
}

}  // namespace
}  // namespace attnfuzz
