#include "properties/memory/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "tests/properties/memory/resident_bytes.h"

namespace attnfuzz {
namespace {

constexpr TensorId kFirst = TensorId::kQ, kLast = kTensors[kTensorCount - 1].id;

// The table of tensors may have 64 rows. tests/growth/rows.py builds one.
static_assert(arena_bytes(64) <= Arena::kFence - Arena::kFenceBefore);

TEST(Arena, SlotsAreApartAndInside) {
  Arena arena;
  EXPECT_EQ(arena.slot(kFirst), arena.base() + Arena::kPage);
  EXPECT_EQ(arena.slot_end(kLast) + Arena::kPage, arena.base() + Arena::kBytes);
  for (int n = 1; n < kTensorCount; ++n) {
    EXPECT_EQ(arena.slot(static_cast<TensorId>(n)),
              arena.slot_end(static_cast<TensorId>(n - 1)) + Arena::kPage);
  }
}

TEST(Arena, BothEndsOfASlotCanBeWritten) {
  Arena arena;
  for (int n = 0; n < kTensorCount; ++n) {
    const auto t = static_cast<TensorId>(n);
    *arena.slot(t) = std::byte{1};
    arena.slot_end(t)[-1] = std::byte{2};
    EXPECT_EQ(*arena.slot(t), std::byte{1});
  }
}

// Reads through volatile, so that the fault is not optimised away.
int read_byte(const std::byte* p) { return static_cast<int>(*static_cast<const volatile std::byte*>(p)); }

TEST(ArenaDeathTest, OneBytePastASlotFaults) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Arena arena;
  EXPECT_DEATH(read_byte(arena.slot_end(TensorId::kK)), "");
  EXPECT_DEATH(read_byte(arena.slot(TensorId::kK) - 1), "");
  EXPECT_DEATH(read_byte(arena.slot_end(kLast)), "");
  EXPECT_DEATH(read_byte(arena.slot(kFirst) - 1), "");
}

TEST(Arena, TwoMappingsAreOneMemory) {
  Arena ours;
  Arena theirs(ours.fd());
  ASSERT_NE(ours.base(), theirs.base());
  std::memcpy(ours.slot(TensorId::kV) + 12345, "value", 6);
  EXPECT_STREQ(reinterpret_cast<const char*>(theirs.slot(TensorId::kV) + 12345), "value");
}

TEST(Arena, OffsetsTravelBetweenMappings) {
  Arena ours;
  Arena theirs(ours.fd());
  std::byte* place = ours.slot(TensorId::kLse) + 64;
  EXPECT_EQ(theirs.at(ours.offset(place)), theirs.slot(TensorId::kLse) + 64);
  EXPECT_EQ(ours.offset(nullptr), Arena::kNowhere);
  EXPECT_EQ(ours.at(Arena::kNowhere), nullptr);
  // An empty tensor at the end of its page begins where nothing may be read.
  EXPECT_EQ(ours.at(ours.offset(ours.slot_end(kLast))), ours.slot_end(kLast));
  int elsewhere = 0;
  EXPECT_THROW(ours.offset(&elsewhere), std::out_of_range);
  EXPECT_THROW(ours.at(Arena::kBytes + 1), std::out_of_range);
}

TEST(Arena, OnlyTouchedPagesExistAndAreGivenBack) {
  Arena arena;
  const int64_t before = resident_bytes(arena);
  for (uint64_t at = 0; at < Arena::kSlotBytes; at += Arena::kSlotBytes / 8) {
    arena.slot(TensorId::kK)[at] = std::byte{7};
    arena.slot(TensorId::kV)[at] = std::byte{7};
  }
  EXPECT_EQ(resident_bytes(arena) - before, int64_t{16} * Arena::kPage);
  arena.forget(TensorId::kK);
  EXPECT_EQ(resident_bytes(arena) - before, int64_t{8} * Arena::kPage);
  EXPECT_EQ(*arena.slot(TensorId::kK), std::byte{0});
  EXPECT_EQ(*arena.slot(TensorId::kV), std::byte{7});
}

TEST(Arena, ForgetsMorePartsThanItGivesBackOneByOne) {
  Arena arena;
  const int64_t before = resident_bytes(arena);
  constexpr uint64_t kParts = 3 * Arena::kMostParts / 2;
  for (uint64_t part = 0; part < kParts; ++part)
    for (const uint64_t page : {2, 3}) arena.slot(TensorId::kK)[(4 * part + page) * Arena::kPage] = std::byte{7};
  arena.slot_end(TensorId::kK)[-1] = std::byte{7};
  arena.forget(TensorId::kK);
  EXPECT_EQ(resident_bytes(arena), before);
}

// Otherwise a check gets slower from case to case.
TEST(Arena, ForgettingDoesNotTakeLongerBecauseOfEarlierCases) {
  Arena arena;
  using Clock = std::chrono::steady_clock;
  const auto least_time = [&] {
    auto least = Clock::duration::max();
    for (int n = 0; n < 20; ++n) {
      *arena.slot(TensorId::kK) = std::byte{7};
      const auto start = Clock::now();
      arena.forget(TensorId::kK);
      least = std::min(least, Clock::now() - start);
    }
    return least;
  };
  const auto at_first = least_time();
  constexpr uint64_t kFarApart = uint64_t{4} << 20;  // each in a page table of its own
  for (uint64_t at = 0; at < Arena::kSlotBytes; at += kFarApart) arena.slot(TensorId::kK)[at] = std::byte{7};
  arena.forget(TensorId::kK);
  EXPECT_LT(least_time(), 10 * at_first);
}

TEST(Arena, RefusesAFileThatIsNoArena) {
  EXPECT_THROW(Arena(-1), std::system_error);
  const int fd = memfd_create("small", 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  try {
    Arena arena(fd);
    FAIL() << "a file of 4096 bytes was taken for an arena";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("holds 4096 bytes"), std::string::npos) << error.what();
  }
  close(fd);
}

}  // namespace
}  // namespace attnfuzz
