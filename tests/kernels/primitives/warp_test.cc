// Exchange and reductions within a warp.
#include "kernels/primitives/warp.h"

#include <cmath>
#include <limits>

#include "kernels/primitives/agree.h"
#include "tests/kernels/executor/harness.h"

namespace attn {
namespace {

__global__ void exchange(int* out) {
  const int lane = lane_id(), base = warp_id() * 1000;
  EXPECT_EQ(base / 1000, static_cast<int>(threadIdx.x + blockDim.x * threadIdx.y) / 32);
  EXPECT_EQ(shfl(base + lane, 5), base + 5);
  EXPECT_EQ(shfl(base + lane, lane + 33), base + (lane + 1) % 32);
  EXPECT_EQ(shfl_xor(base + lane, 9), base + (lane ^ 9));
  EXPECT_EQ(shfl(static_cast<double>(lane), 3), 3.0);
  EXPECT_EQ(ballot(lane % 3 == 0), 0x49249249u);
  syncwarp();
  out[threadIdx.x + blockDim.x * threadIdx.y] = 1;
}

TEST(Warp, ExchangesUnderEverySchedule) {
  for (uint64_t seed : kOrders) {
    std::vector<int> out(96);
    EXPECT_EQ(run_on_cpu(exchange, 1, dim3(16, 6), {.seed = seed}, out.data()).told(), "ok");
    EXPECT_EQ(out, std::vector<int>(96, 1));
  }
}

__global__ void reduce(const float* in, float* out) {
  const int lane = lane_id();
  float maxima[3] = {in[lane], -in[lane], in[lane] * 2};
  quad_max(maxima);
  float sums[2] = {in[lane], 1};
  quad_sum(sums);
  check_quad_agrees(sums[0]);
  check_quad_agrees(maxima[1]);
  float* mine = out + lane * 7;
  for (int i = 0; i < 3; ++i) mine[i] = maxima[i];
  for (int i = 0; i < 2; ++i) mine[3 + i] = sums[i];
  mine[5] = warp_max(in[lane]);
  mine[6] = warp_sum(in[lane]);
}

__global__ void reduce_nan(const float* in, float* out) {
  float maxima[1] = {in[threadIdx.x]}, kept[1] = {in[threadIdx.x]};
  quad_max(maxima);
  quad_max_nan(kept);
  out[2 * threadIdx.x] = maxima[0];
  out[2 * threadIdx.x + 1] = kept[0];
}

TEST(Warp, OneMaximumPassesOverNanAndOneKeepsIt) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (int where = 0; where < 4; ++where) {
    std::vector<float> in(32), out(64);
    for (int i = 0; i < 32; ++i) in[i] = static_cast<float>(i % 4);
    in[4 + where] = kNan;
    EXPECT_EQ(run_on_cpu(reduce_nan, 1, 32, {}, in.data(), out.data()).told(), "ok");
    for (int lane = 0; lane < 32; ++lane) {
      const bool met = lane / 4 == 1;
      EXPECT_EQ(out[2 * lane], met && where == 3 ? 2.0f : 3.0f);
      EXPECT_EQ(std::isnan(out[2 * lane + 1]), met);
      if (!met) EXPECT_EQ(out[2 * lane + 1], 3.0f);
    }
  }
}

TEST(Warp, ReductionsAddInTheOrderOfAButterfly) {
  std::vector<float> in(32), out(32 * 7);
  for (int i = 0; i < 32; ++i) in[i] = std::sin(static_cast<float>(i * i)) * static_cast<float>(1 << i % 13);
  EXPECT_EQ(run_on_cpu(reduce, 1, 32, {}, in.data(), out.data()).told(), "ok");
  // The sums that 32 lanes get from exchanging with lane ^ 1, ^ 2, ^ 4, ^ 8, ^ 16.
  std::vector<float> sum = in;
  for (int mask = 1; mask < 32; mask *= 2) {
    const std::vector<float> before = sum;
    for (int i = 0; i < 32; ++i) sum[i] = before[i] + before[i ^ mask];
  }
  for (int lane = 0; lane < 32; ++lane) {
    const float *mine = &out[lane * 7], *quad = &in[lane / 4 * 4];
    EXPECT_EQ(mine[0], std::max({quad[0], quad[1], quad[2], quad[3]}));
    EXPECT_EQ(mine[1], -std::min({quad[0], quad[1], quad[2], quad[3]}));
    EXPECT_EQ(mine[2], 2 * mine[0]);
    EXPECT_EQ(mine[3], (quad[0] + quad[1]) + (quad[2] + quad[3]));
    EXPECT_EQ(mine[4], 4);
    EXPECT_EQ(mine[5], *std::max_element(in.begin(), in.end()));
    EXPECT_EQ(mine[6], sum[lane]);
  }
}

TEST(Warp, MaximaDropNaNAndSumsKeepIt) {
  std::vector<float> in(32, -inf()), out(32 * 7);
  in[6] = std::numeric_limits<float>::quiet_NaN();
  in[7] = -8;
  EXPECT_EQ(run_on_cpu(reduce, 1, 32, {}, in.data(), out.data()).status, ATTN_OK);
  EXPECT_EQ(out[4 * 7], -8);
  EXPECT_EQ(out[0], neg_inf());
  EXPECT_TRUE(std::isnan(out[5 * 7 + 3]));
  EXPECT_EQ(out[3], neg_inf());
  EXPECT_EQ(out[5], -8);
  EXPECT_TRUE(std::isnan(out[6]));
}

}  // namespace
}  // namespace attn
