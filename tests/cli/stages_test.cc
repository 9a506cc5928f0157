// Tests which kernel runs which stage of a command that calls several.
#include "cli/open/stages.h"

#include <gtest/gtest.h>

#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

// stages.cc needs these to open kernels, which this test does not.
std::vector<KernelLibrary> libraries_of(const std::string&, const TargetOptions&) { return {}; }
std::unique_ptr<Target> open(const KernelLibrary&, const TargetOptions&) { return nullptr; }
Calibration calibration_for(const KernelInfo&, const TargetOptions&) { return {}; }

namespace {

constexpr size_t kStages = 3;

// A kernel that does the stages of these bits.
class Does final : public FakeTarget {
 public:
  explicit Does(uint64_t stages) { info_.features = stages, info_.name = "kernel"; }
  const KernelInfo& info() const override { return info_; }

 private:
  KernelInfo info_ = FakeTarget().info();
};

std::vector<size_t> shared(const std::vector<uint64_t>& kernels,
                           std::optional<std::pair<size_t, size_t>> either = std::nullopt) {
  std::vector<OpenKernel> opened;
  for (const uint64_t stages : kernels) opened.push_back({{}, std::make_unique<Does>(stages), {}});
  return share_out(opened,
                   {.count = kStages,
                    .does = [](uint64_t features, size_t stage) { return (features >> stage & 1) != 0; },
                    .name_of = [](size_t stage) { return "stage " + std::to_string(stage); },
                    .all = "these",
                    .either = either});
}

std::string refusal(const std::vector<uint64_t>& kernels,
                    std::optional<std::pair<size_t, size_t>> either = std::nullopt) {
  try {
    shared(kernels, either);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

using Shared = std::vector<size_t>;

TEST(Stages, EachHasTheFirstKernelThatDoesIt) {
  EXPECT_EQ(shared({0b101, 0b110}), (Shared{0, 1, 0}));
  EXPECT_EQ(shared({0b110, 0b111}), (Shared{1, 0, 0}));
  EXPECT_EQ(refusal({0b110}), "none of these kernels does the stage: stage 0; these together do all");
  EXPECT_EQ(refusal({0b011}), "none of these kernels does the stage: stage 2; these together do all");
  EXPECT_NE(refusal({0b111, 0}).find("kernel does no stage"), std::string::npos);
}

TEST(Stages, OfTwoThatExcludeEachOtherOneRuns) {
  const std::pair<size_t, size_t> either = {0, 1};
  EXPECT_EQ(shared({0b110}, either), (Shared{kNoKernel, 0, 0}));
  EXPECT_EQ(shared({0b110, 0b001}, either), (Shared{1, kNoKernel, 0}));
  EXPECT_EQ(refusal({0b100}, either), "none of these kernels does the stage: stage 1; these together do all");
}

}  // namespace
}  // namespace attnfuzz
