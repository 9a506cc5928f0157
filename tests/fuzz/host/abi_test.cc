// Tests plug-ins that were built with another version of the contract: an older one
// (fakes/abi/first.cc), and a newer one (fakes/abi/next.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

using testing::HasSubstr;

// A call that the plug-ins take.
FakeCall call_of(const std::string& library, const std::string& kernel) {
  FakeCall call(kernel, library);
  call.problem.dtype = ATTN_F16;
  call.problem.window_left = call.problem.window_right = -1;
  call.problem.bias_dtype = ATTN_NONE;
  call.problem.scale = 1;
  call.env.backend = ATTN_CPU;
  call.env.sm_count = 1;
  call.tensors.k.data = call.target->arena().slot(TensorId::kK);
  call.tensors.v.data = call.target->arena().slot(TensorId::kV);
  for (attn_tensor* t : {&call.tensors.q, &call.tensors.k, &call.tensors.v, &call.tensors.o}) {
    t->stride[2] = 8;
    t->stride[3] = 1;
  }
  return call;
}

TEST(Abi, AnOlderPlugInIsPlannedAndRun) {
  FakeCall call = call_of("abi_first", "first");
  EXPECT_EQ(call.target->info().features, 0u);
  const PlanReply reply = call.plan();
  ASSERT_EQ(reply.status, ATTN_OK) << reply.reason << reply.crash.value_or("");
  EXPECT_EQ(reply.plan.size, ATTN_PLAN_MIN);
  call.planned = reply.plan;
  EXPECT_EQ(call.run().status, ATTN_OK);
}

TEST(Abi, ANewerPlugInIsPlannedAndRun) {
  FakeCall call = call_of("abi_next", "next");
  EXPECT_EQ(call.target->info().features, 2u | uint64_t{1} << 40);
  const PlanReply reply = call.plan();
  ASSERT_EQ(reply.status, ATTN_OK) << reply.reason << reply.crash.value_or("");
  EXPECT_EQ(reply.plan.size, sizeof(attn_plan));
  EXPECT_EQ(reply.plan.tile_k, 64);
  call.planned = reply.plan;
  EXPECT_EQ(call.run().status, ATTN_OK);
}

TEST(Abi, APlanLargerThanTheCallersRoomIsReported) {
  FakeCall call = call_of("abi_next", "overrun");
  const PlanReply reply = call.plan();
  EXPECT_EQ(reply.status, ATTN_FAULT);
  EXPECT_THAT(reply.crash.value_or(""), HasSubstr("wrote beyond the plan->size"));
}

TEST(Abi, AProblemIsNotOfferedToAPlugInThatDoesNotKnowItsFeatures) {
  FakeCall first = call_of("abi_first", "first");
  first.problem.features = 2;
  EXPECT_EQ(first.plan().status, ATTN_UNSUPPORTED);  // the plug-in itself would take it
  EXPECT_THAT(first.plan().reason, HasSubstr("attn_kernel.features lacks the bits 2"));
  FakeCall next = call_of("abi_next", "next");
  next.problem.features = uint64_t{1} << 40;
  EXPECT_EQ(next.plan().status, ATTN_OK);
  next.problem.features = 1 | uint64_t{1} << 40;
  EXPECT_THAT(next.plan().reason, HasSubstr("lacks the bits 1"));
}

TEST(Abi, ReadFillsWithZerosAndWriteKeepsToItsRoom) {
  struct Struct {
    uint32_t size;
    int32_t a, b;
  } longer = {12, 1, 2}, read = {};
  EXPECT_TRUE(attn_read(&read, sizeof read, &longer, 8));
  EXPECT_EQ(read.b, 2);
  longer.size = 8;
  EXPECT_TRUE(attn_read(&read, sizeof read, &longer, 8));
  EXPECT_EQ(read.size, sizeof read);
  EXPECT_EQ(read.a, 1);
  EXPECT_EQ(read.b, 0);
  longer.size = 1000;  // of a later contract: only the known fields are read
  EXPECT_TRUE(attn_read(&read, sizeof read, &longer, 8));
  EXPECT_EQ(read.b, 2);
  longer.size = 7;
  EXPECT_FALSE(attn_read(&read, sizeof read, &longer, 8));
  EXPECT_EQ(read.a, 0);
  EXPECT_FALSE(attn_read(&read, sizeof read, nullptr, 8));

  const Struct own = {0, 5, 6};
  Struct room = {8, 0, 9};
  EXPECT_TRUE(attn_write(&room, &own, sizeof own, 8));
  EXPECT_EQ(room.size, 8u);
  EXPECT_EQ(room.a, 5);
  EXPECT_EQ(room.b, 9);
  room.size = 1000;
  EXPECT_TRUE(attn_write(&room, &own, sizeof own, 8));
  EXPECT_EQ(room.size, sizeof own);
  room = {4, 0, 9};
  EXPECT_FALSE(attn_write(&room, &own, sizeof own, 8));
  EXPECT_EQ(room.a, 0);
}

}  // namespace
}  // namespace attnfuzz
