// The kernels of the oracle on a GPU, run by the CPU executor: what they say is what the host's oracle says.
// (On a GPU: oracle_agreement.)
#include <gtest/gtest.h>

#include "reference/cuda/cuda_oracle.h"
#include "tests/reference/cuda/declared_cases.h"

namespace attnfuzz {
namespace {

TEST(CudaOracle, SaysOnTheExecutorWhatTheHostsSays) {
  // All of a row's numbers in shared memory, and hardly any.
  for (const int64_t most_shared : {1 << 20, 1 << 14}) {
    std::string why;
    const auto oracle = open_cuda_oracle(&why, 0, most_shared);
    ASSERT_NE(oracle, nullptr) << why;
    const AgreementTally tally = hold_on_declared(*oracle, 0, 400);
    EXPECT_TRUE(tally.say()) << tally.first;
    EXPECT_EQ(tally.not_for_it, 0);
    EXPECT_GT(tally.rows, 1000);
  }
}

TEST(CudaOracle, LeavesSmallProblemsToTheHosts) {
  std::string why;
  const auto oracle = open_cuda_oracle(&why);
  ASSERT_NE(oracle, nullptr) << why;
  EXPECT_EQ(hold_on_declared(*oracle, 0, 20).not_for_it, 20);
}

}  // namespace
}  // namespace attnfuzz
