// A campaign's folder with one fake kernel. Tests file crashes by hand, and read the findings of the triage.
//
//   class OneSite : public CrashFolder { ... CrashFolder([] { return std::make_unique<Dies>(); }) ... };
//   file(c, verdict);   EXPECT_EQ(findings().size(), 1u);
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "fuzz/campaign/store/finding_list.h"
#include "fuzz/campaign/triage/triage.h"
#include "properties/case/codec/codec.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

class CrashFolder : public ::testing::Test {
 protected:
  explicit CrashFolder(std::function<std::unique_ptr<FakeTarget>()> open) {
    std::string name = (std::filesystem::temp_directory_path() / "crashes-XXXXXX").string();
    options_.dir = mkdtemp(name.data());
    std::filesystem::create_directories(options_.dir + "/findings");
    write_findings(options_.dir, {});
    CampaignTarget target;
    target.record.name = "fake.cpu.plain";
    target.record.kernel = target.folder = "fake";
    target.record.build_kind = "plain";
    target.info = FakeTarget().info();
    target.open = [open = std::move(open)](std::string*) { return open(); };
    target.calibration = executor();
    target.properties = {find_property("reference")};
    targets_ = {target};
  }
  ~CrashFolder() override { std::filesystem::remove_all(options_.dir); }

  // Files a failure, met after `t` seconds, for the triage.
  void file(const Case& c, const Verdict& verdict, double t = 0) {
    Crash crash;
    crash.id = digest(c).substr(0, 12);
    crash.target = "fake.cpu.plain";
    crash.property = "reference";
    crash.c = c;
    crash.kind = to_string(verdict.kind);
    crash.message = verdict.message;
    crash.site = verdict.site;
    crash.t = t;
    write_crash(options_.dir, crash, "");
  }

  // Runs the triage and returns the findings.
  std::vector<Finding> findings() {
    const SharedStatePtr shared = make_shared_state();
    std::atomic<bool> waits = false;
    triage({options_, targets_, *shared, waits});
    return read_findings(options_.dir).findings;
  }

  CampaignOptions options_;
  std::vector<CampaignTarget> targets_;
};

}  // namespace attnfuzz
