// Tests the counters of a kernel's edges that the worker returns.
#include <algorithm>
#include <set>
#include <vector>

#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

std::vector<uint8_t> coverage(const Target& target) {
  const auto seen = target.coverage();
  return {seen.begin(), seen.end()};
}

std::vector<uint8_t> of_batch(FakeCall& call, int64_t batch) {
  call.problem.batch = batch;
  EXPECT_EQ(call.run().status, ATTN_OK);
  return coverage(*call.target);
}

bool has(const std::vector<uint8_t>& seen, uint8_t bucket) {
  return std::ranges::find(seen, bucket) != seen.end();
}

TEST(Coverage, CountsInBuckets) {
  FakeCall call("counting", "counting");
  const struct {
    int64_t times;
    uint8_t bucket;
  } cases[] = {{2, 2},   {3, 4},   {4, 8},   {7, 8},    {8, 16},   {15, 16},
               {16, 32}, {31, 32}, {32, 64}, {127, 64}, {128, 128}};
  for (const auto& [times, bucket] : cases) {
    const auto seen = of_batch(call, times);
    EXPECT_TRUE(has(seen, 1)) << times;  // code that runs once
    EXPECT_TRUE(has(seen, bucket)) << times;
    for (const uint8_t edge : seen) EXPECT_TRUE(edge == 0 || edge == 1 || edge == bucket) << times;
  }
}

// If 256 threads pass an edge once each, its 8-bit counter wraps to 0.
TEST(Coverage, ACounterThatWrapsIsNotTakenForZero) {
  FakeCall call("counting", "counting");
  EXPECT_TRUE(has(of_batch(call, 256), 128));
  EXPECT_TRUE(has(of_batch(call, 1024), 128));
}

TEST(Coverage, IsOfOneRun) {
  FakeCall call("counting", "counting");
  const auto none = of_batch(call, 0), three = of_batch(call, 3);
  EXPECT_EQ(none.size(), three.size());
  EXPECT_NE(none, three);
  EXPECT_EQ(of_batch(call, 0), none);
  call.target->renew();  // another process gives the same edges
  EXPECT_EQ(of_batch(call, 3), three);
}

TEST(Coverage, IsCollectedUntilItIsAskedFor) {
  FakeCall call("counting", "counting");
  call.problem.batch = 3;
  call.run();
  const auto both = of_batch(call, 40);
  EXPECT_TRUE(has(both, 4 | 64));
  EXPECT_FALSE(has(of_batch(call, 40), 4 | 64));
}

TEST(Coverage, ACrashHasNone) {
  FakeCall call("counting", "counting");
  call.problem.causal = 1;
  EXPECT_TRUE(call.run().crash);
  EXPECT_TRUE(call.target->coverage().empty());
}

TEST(Coverage, APlainLibraryHasNone) {
  FakeCall call("copy");
  call.run();
  EXPECT_TRUE(call.target->coverage().empty());
}

}  // namespace
}  // namespace attnfuzz
