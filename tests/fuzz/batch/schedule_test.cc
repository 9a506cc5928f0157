#include "fuzz/batch/device/schedule.h"

#include <gtest/gtest.h>

namespace attnfuzz {
namespace {

batch::Call costing(int64_t keys, bool in_place = false) {
  batch::Call call = {};
  attn_problem& p = call.problem;
  p.batch = p.heads_q = 1, p.seq_q = 1024, p.seq_k = keys, p.dim_qk = p.dim_v = 64;
  call.repeats = 1;
  call.in_place = in_place;
  return call;
}

TEST(Schedule, BeginsWithTheSlowestAndFillsTheEmptiestSlot) {
  const std::vector<batch::Call> calls = {costing(1000),       costing(50'000), costing(2000),
                                          costing(3000, true), costing(60'000), costing(1000)};
  const batch::Schedule schedule(calls, 2);
  EXPECT_EQ(schedule.order, (std::vector<size_t>{4, 1, 2, 3, 0, 5}));
  EXPECT_EQ(schedule.slot, (std::vector<int>{1, 1, 1, 1, 0, 1}))
      << "slot 0 has 60,000, and slot 1 never as much";
}

TEST(Schedule, KeepsTheOrderOfEqualCalls) {
  const std::vector<batch::Call> calls(5, costing(100));
  const batch::Schedule schedule(calls, 16);
  EXPECT_EQ(schedule.order, (std::vector<size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(schedule.slot, (std::vector<int>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace attnfuzz
