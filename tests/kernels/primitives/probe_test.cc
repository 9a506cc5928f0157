// Tests that a probe records only the requested block and warp, and never past its capacity.
#include "kernels/primitives/probe.h"

#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

__global__ void probed_kernel(const attn_probe request) {
  const float values[2] = {static_cast<float>(threadIdx.x), 0.5f};
  probe(&request, ATTN_PROBE_S, 3, values);
  probe(nullptr, ATTN_PROBE_S, 3, values);
}

TEST(Probe, RecordsOneWarpOfOneBlock) {
  std::vector<float> values(32 * 6 + 10, -1);
  unsigned long long used = 0;
  const attn_probe request{sizeof(attn_probe), {1, 0, 2}, 1, 0, values.data(), values.size(), &used};
  EXPECT_EQ(run_on_cpu(probed_kernel, dim3(2, 1, 3), 96, {}, request).told(), "ok");
  EXPECT_EQ(used, 32u * 6);
  for (int i = 0; i < 32; ++i) {
    const std::vector<float> record(&values[i * 6], &values[i * 6 + 6]);
    EXPECT_EQ(record, (std::vector<float>{1, 3, static_cast<float>(i), 2, static_cast<float>(32 + i), 0.5f}));
  }
  EXPECT_EQ(values[32 * 6], -1);
}

TEST(Probe, CountsRecordsThatDoNotFit) {
  std::vector<float> values(13, -1);
  unsigned long long used = 0;
  const attn_probe request{sizeof(attn_probe), {0, 0, 0}, 0, 0, values.data(), values.size(), &used};
  EXPECT_EQ(run_on_cpu(probed_kernel, 1, 32, {}, request).told(), "ok");
  EXPECT_EQ(used, 32u * 6);
  EXPECT_EQ(values[11], 0.5f);
  EXPECT_EQ(values[12], -1);
}

TEST(Probe, WithoutAProbeNothingIsRecorded) {
  attn_env env{};
  EXPECT_EQ(probe_of(&env).values, nullptr);
  EXPECT_EQ(run_on_cpu(probed_kernel, 1, 32, {}, probe_of(&env)).told(), "ok");
}

}  // namespace
}  // namespace attn
