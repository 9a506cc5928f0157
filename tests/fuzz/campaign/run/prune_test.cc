// Tests that a pruned corpus holds no case that a replay refuses on every target.
#include "fuzz/campaign/run/prune.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "properties/case/codec/codec.h"
#include "tests/fuzz/campaign/append_target.h"

namespace attnfuzz {
namespace {

class TakesNoCausalMask : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    if (!problem.causal) return FakeTarget::plan(problem, tensors, env);
    PlanReply refusal;
    refusal.status = ATTN_UNSUPPORTED;
    refusal.reason = "causal masks are not supported";
    return refusal;
  }
};

CampaignTarget opens(const std::string& name, OpenTarget open) {
  CampaignTarget target;
  target.record.name = name;
  target.record.backend = "cpu";
  target.record.build_kind = "plain";
  target.info = FakeTarget().info();
  target.calibration = executor();
  target.open = std::move(open);
  return target;
}

TEST(Prune, LeavesOutWhatEveryTargetRefusesToReplay) {
  std::string dir = (std::filesystem::temp_directory_path() / "prune-XXXXXX").string();
  dir = mkdtemp(dir.data());
  Case plain, causal, backward;
  causal.problem.causal = true;
  backward.problem.features |= ATTN_FEATURE_BACKWARD;
  std::filesystem::create_directories(dir + "/corpus/fake");
  for (const Case& c : {plain, causal, backward}) write_file(corpus_file(dir, "fake", digest(c)), encode(c));
  const CampaignTarget refuses =
      opens("refuses.cpu.plain", [](std::string*) { return std::make_unique<TakesNoCausalMask>(); });
  const CampaignTarget takes =
      opens("takes.cpu.plain", [](std::string*) { return std::make_unique<FakeTarget>(); });

  PruneResult pruned = prune(dir, {refuses}, 10);
  EXPECT_EQ(pruned.entries, 3u);
  EXPECT_EQ(pruned.refused, 2u);
  ASSERT_EQ(pruned.kept.size(), 1u);
  EXPECT_EQ(pruned.kept[0].c, plain);

  pruned = prune(dir, {refuses, takes}, 10);
  EXPECT_EQ(pruned.refused, 1u);
  EXPECT_EQ(pruned.kept.size(), 2u) << "one target takes the case with a causal mask";

  // It would run appends instead.
  const CampaignTarget appends = opens("appends.cpu.plain", [](std::string*) {
    return std::make_unique<AppendTarget>(AppendTarget::Bug::kNone);
  });
  pruned = prune(dir, {appends}, 10);
  EXPECT_EQ(pruned.refused, 3u);
  EXPECT_TRUE(pruned.kept.empty());
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace attnfuzz
