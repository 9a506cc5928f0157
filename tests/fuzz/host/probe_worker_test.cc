// Tests that a probe reaches the kernel in the worker, and that its records come back.
#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

TEST(ProbeWorker, AsksForTheBlockAndWarpAndBringsBackWhatWasRecorded) {
  FakeCall call("probing", "probing");
  EXPECT_FALSE(call.run().probe);
  for (const uint32_t warp : {0u, 3u}) {
    call.target->probe(ProbeRequest{{5, 6, 7}, warp});
    const RunReply run = call.run();
    EXPECT_EQ(run.status, ATTN_OK);
    ASSERT_TRUE(run.probe);
    EXPECT_EQ(run.probe->used, 4u);
    EXPECT_EQ(run.probe->values, (std::vector<float>{5, 6, 7, static_cast<float>(warp)}));
  }
  call.target->probe(std::nullopt);
  EXPECT_FALSE(call.run().probe);
}

TEST(ProbeWorker, RecordsThatDoNotFitAreCounted) {
  FakeCall call("probing", "probing");
  call.target->probe(ProbeRequest{{5, 6, 7}, 9});
  const RunReply run = call.run();
  ASSERT_TRUE(run.probe);
  EXPECT_EQ(run.probe->used, run.probe->values.size() + 7);
}

TEST(ProbeWorker, AKernelWithoutProbesRecordsNothing) {
  FakeCall call("copy");
  call.target->probe(ProbeRequest{});
  const RunReply run = call.run();
  EXPECT_EQ(run.status, ATTN_OK);
  ASSERT_TRUE(run.probe);
  EXPECT_EQ(run.probe->used, 0u);
  EXPECT_TRUE(run.probe->values.empty());
}

TEST(ProbeWorker, ACrashHasNoProbe) {
  FakeCall call("null");
  call.target->probe(ProbeRequest{});
  const RunReply run = call.run();
  EXPECT_TRUE(run.crash);
  EXPECT_FALSE(run.probe);
}

}  // namespace
}  // namespace attnfuzz
