#include "fuzz/campaign/run/gpu_sampler.h"

#include <gtest/gtest.h>

namespace attnfuzz {
namespace {

TEST(GpuSampler, GivesTheMeanOfTheDriversNumbers) {
  GpuSampler sampler({"0", "GPU-one", "1"}, 2, ATTNFUZZ_NVML);
  EXPECT_TRUE(sampler.busy().empty()) << "nothing was looked at yet";
  for (int n = 0; n < 4; ++n) sampler.look();
  const std::vector<double> busy = sampler.busy();
  ASSERT_EQ(busy.size(), 2u);
  EXPECT_DOUBLE_EQ(busy[0], 0.5);
  EXPECT_DOUBLE_EQ(busy[1], 1);
}

TEST(GpuSampler, SaysNothingWithoutADriverOrOfAGpuThatItDoesNotKnow) {
  for (const auto& [gpu, library] :
       {std::pair{"0", "/nowhere/libnvidia-ml.so.1"}, {"7", ATTNFUZZ_NVML}, {"GPU-two", ATTNFUZZ_NVML}}) {
    GpuSampler sampler({gpu}, 1, library);
    sampler.look();
    EXPECT_TRUE(sampler.busy().empty()) << gpu;
  }
}

}  // namespace
}  // namespace attnfuzz
