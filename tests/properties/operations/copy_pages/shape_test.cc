// Tests that shape() turns every drawn case into a legal copy of pages, that a second shape() and a trip
// through a file change nothing, and that illegal pairs are refused.
#include <gtest/gtest.h>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

const Operation& copy_pages() { return operation_of(ATTN_FEATURE_COPY_PAGES); }

TEST(CopyShape, EveryDrawnCaseBecomesALegalCopy) {
  ASSERT_STREQ(copy_pages().name, "copy_pages");
  GeneratorConfig config;
  config.features = ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;
  int none = 0, several = 0, itself = 0, shared = 0, narrow = 0;
  for (uint64_t index = 0; index < 2000; ++index) {
    Case c = draw(config, 5, index);
    copy_pages().shape(c, config.features);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    copy_pages().shape(again, config.features);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    none += c.copies.empty(), several += c.copies.size() > 2, narrow += c.problem.index_dtype == ATTN_INDEX_32;
    for (size_t n = 0; n < c.copies.size(); ++n) {
      itself += c.copies[n].from == c.copies[n].to;
      shared += n > 0 && c.copies[n].from == c.copies[n - 1].from;
    }
  }
  for (const int count : {none, several, itself, shared, narrow}) EXPECT_GT(count, 50);
}

Case two_pairs() {
  Case c;
  copy_pages().shape(c, 0);
  c.problem.paging = Paging{.size = 2, .spare = 4};
  c.copies = {{0, 1}, {0, 2}};
  c.problem.batch = 2;
  return c;
}

TEST(CopyShape, NoPageIsWrittenTwiceOrReadAndWritten) {
  ASSERT_EQ(illegal(two_pairs()), std::nullopt) << *illegal(two_pairs());
  const auto refused = [](std::vector<PageCopy> copies) {
    Case c = two_pairs();
    c.copies = std::move(copies);
    const bool why = illegal(c).has_value();
    tidy(c);
    EXPECT_EQ(illegal(c), std::nullopt);
    EXPECT_EQ(static_cast<size_t>(c.problem.batch), c.copies.size());
    return why;
  };
  EXPECT_TRUE(refused({{0, 1}, {2, 1}}));
  EXPECT_TRUE(refused({{0, 1}, {1, 2}}));
  EXPECT_TRUE(refused({{0, 1}, {2, 0}}));
  EXPECT_TRUE(refused({{0, 1}, {2, 4}}));
  EXPECT_TRUE(refused({{0, 1}, {-1, 2}}));
  EXPECT_TRUE(refused({{0, 1}}));
  EXPECT_FALSE(refused({{3, 3}, {0, 1}}));
}

TEST(CopyShape, FieldsThatItLacksAreRefused) {
  const auto refused = [](void (*change)(Case&)) {
    Case c = two_pairs();
    change(c);
    return illegal(c).has_value();
  };
  EXPECT_TRUE(refused([](Case& x) { x.problem.seq_k = 2; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.seq_q = 2; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.key_lengths = {0, 0}; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.paging.reset(); }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.paging->order = 3; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.features |= ATTN_FEATURE_APPEND; }));
  Case forward;
  forward.copies = {{}};
  EXPECT_TRUE(illegal(forward).has_value());
}

}  // namespace
}  // namespace attnfuzz
