#include "fuzz/batch/device/far_ranges.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace attnfuzz {
namespace {

// A call with a spread Q, K and V that begin at `begin`.
batch::Call spread_at(uint64_t begin, bool in_place = false) {
  batch::Call call = {};
  call.in_place = in_place;
  call.spread = uint32_t{1} << batch::kQuery | uint32_t{1} << batch::kKey | uint32_t{1} << batch::kValue;
  for (const batch::Tensor t : {batch::kQuery, batch::kKey, batch::kValue}) call.tensor[t].begin = begin;
  return call;
}

TEST(FarRanges, AreFoundAgainAndNotShared) {
  batch::FarRanges ranges(512);
  const std::vector<batch::Call> first = {spread_at(1), spread_at(2), spread_at(3, true)};
  ranges.assign(first, std::vector<int>{0, 1, 1});
  const int k_of_1 = ranges.of(0, batch::kKey), v_of_1 = ranges.of(0, batch::kValue),
            k_of_2 = ranges.of(1, batch::kKey);
  EXPECT_EQ((std::set<int>{k_of_1, v_of_1, k_of_2, ranges.of(1, batch::kValue)}).size(), 4u);
  EXPECT_EQ(ranges.of(2, batch::kKey), k_of_2) << "a call in place has its tensors where they were";
  const std::vector<batch::Call> second = {spread_at(3), spread_at(2), spread_at(1), spread_at(1)};
  ranges.assign(second, std::vector<int>{0, 1, 2, 2});
  EXPECT_EQ(ranges.of(1, batch::kKey), k_of_2);
  EXPECT_EQ(ranges.of(2, batch::kKey), k_of_1);
  EXPECT_EQ(ranges.of(2, batch::kValue), v_of_1);
  EXPECT_EQ(ranges.of(3, batch::kKey), k_of_1) << "a later call of the same slot may have it";
  EXPECT_NE(ranges.of(0, batch::kKey), k_of_1) << "there are unused ranges";
}

TEST(FarRanges, SufficeForEachSlot) {
  batch::FarRanges ranges(512);
  std::vector<batch::Call> calls;
  std::vector<int> slots;
  for (int n = 0; n < 256; ++n)
    calls.push_back(spread_at(static_cast<uint64_t>(n))), slots.push_back(n < 200 ? 0 : n % 16);
  ranges.assign(calls, slots);
  std::map<int, int> slot_of;
  for (size_t n = 0; n < calls.size(); ++n)
    for (const batch::Tensor t : {batch::kQuery, batch::kKey, batch::kValue}) {
      const auto [of, is_new] = slot_of.emplace(ranges.of(n, t), slots[n]);
      EXPECT_EQ(of->second, slots[n]) << "a range that two slots share";
    }
}

}  // namespace
}  // namespace attnfuzz
