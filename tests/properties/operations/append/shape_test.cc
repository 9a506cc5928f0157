// Tests an append that is made from a drawn case: it is legal, unchanged if made again, unchanged in files, and has
// lengths at the borders of pages and of the capacity.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/pages.h"
#include "properties/case/places/planted_rank.h"
#include "properties/draw/generator.h"
#include "properties/operations/operation.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kAppends = ATTN_FEATURE_APPEND | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_RAGGED |
                             ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;

const Operation& append() { return operation_of(ATTN_FEATURE_APPEND); }

TEST(AppendShape, EveryDrawnCaseBecomesALegalAppend) {
  ASSERT_STREQ(append().name, "append");
  GeneratorConfig config;
  config.features = kAppends;
  int paged = 0, packed = 0, narrow = 0, none = 0, past = 0, into = 0, planted = 0, full = 0;
  for (uint64_t index = 0; index < 2000; ++index) {
    Case c = draw(config, 5, index);
    append().shape(c, kAppends);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    append().shape(again, kAppends);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    const Problem& p = c.problem;
    paged += p.paging.has_value(), packed += p.packed_q.has_value(), narrow += p.index_dtype == ATTN_INDEX_32;
    planted += !c.planted.empty();
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t held = held_keys(p, b), rows = new_rows(p, b);
      none += rows == 0, past += held + rows > p.seq_k, full += held + rows == p.seq_k && rows > 0;
      into += p.paging && rows > 0 && held % p.paging->size != 0 && held % p.paging->size + rows > p.paging->size;
    }
  }
  EXPECT_GT(paged, 800);
  EXPECT_GT(packed, 400);
  EXPECT_GT(narrow, 500);
  for (const int count : {none, past, full, into, planted}) EXPECT_GT(count, 30);
}

TEST(AppendShape, StaysWithinTheKernelsFeatures) {
  for (uint64_t index = 0; index < 300; ++index) {
    Case c = draw({}, 5, index);
    append().shape(c, ATTN_FEATURE_APPEND | ATTN_FEATURE_NO_FORWARD);
    const Problem& p = c.problem;
    ASSERT_FALSE(p.paging || p.packed_q || p.index_dtype == ATTN_INDEX_32) << encode(c);
  }
}

TEST(AppendShape, FieldsThatItLacksAreRefused) {
  Case c;
  append().shape(c, 0);
  ASSERT_EQ(illegal(c), std::nullopt);
  const auto refused = [&](void (*change)(Case&)) {
    Case other = c;
    change(other);
    return illegal(other).has_value();
  };
  EXPECT_TRUE(refused([](Case& x) { x.problem.causal = true; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.heads_q = 2; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.key_lengths.reset(); }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.packed_k = Packing{{1}}; }));
  EXPECT_TRUE(refused([](Case& x) { x.problem.features |= ATTN_FEATURE_MERGE; }));
  EXPECT_TRUE(refused([](Case& x) { x.q.kind = FillKind::kGaussian; }));
  EXPECT_TRUE(refused([](Case& x) { x.copies = {{}}; }));
}

// A page that two entries share would get the new rows of both.
TEST(AppendShape, NoPageIsShared) {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_APPEND;
  p.batch = 2, p.seq_k = 8;
  p.key_lengths = {3, 4};
  p.paging = Paging{.size = 2};
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  p.paging->shared = 1;
  EXPECT_EQ(illegal(c), "paging.shared is set, but no two batch entries append to one page");
  tidy(c);
  EXPECT_EQ(illegal(c), std::nullopt);
  Case drawn;
  drawn.problem.batch = 2, drawn.problem.seq_k = 8;
  drawn.problem.key_lengths = {3, 4};
  drawn.problem.paging = Paging{.size = 2, .shared = 1};
  ASSERT_EQ(illegal(drawn), std::nullopt) << *illegal(drawn);
  append().shape(drawn, kAppends);
  EXPECT_EQ(illegal(drawn), std::nullopt);
  EXPECT_EQ(drawn.problem.paging->shared, 0);
}

// A finite code that is planted in K of 8 bits becomes the same number in the 16-bit new rows.
TEST(AppendShape, CodesOf8BitsBecomeNumbersOf16) {
  Case c;
  c.problem.seq_k = 4;
  set_kv8(c, Kv8{});
  c.layout[static_cast<size_t>(TensorId::kKScale)].row_gap = 1;
  c.planted.push_back({.tensor = TensorId::kK, .bits = known_bits(ATTN_E4M3).nan});
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  make_call(append(), c, ATTN_FEATURE_APPEND);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  EXPECT_FALSE(c.problem.kv8.has_value());
  ASSERT_EQ(c.planted.size(), 1u);
  EXPECT_EQ(c.planted[0].tensor, TensorId::kKNew);
  EXPECT_TRUE(std::isnan(decode(ATTN_F16, &c.planted[0].bits, 0)));
}

TEST(AppendShape, AKernelWithSeveralOperationsGetsEach) {
  constexpr uint64_t kBoth = ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES | ATTN_FEATURE_NO_FORWARD;
  EXPECT_STREQ(operation_for(0, kBoth, 0)->name, "append");
  EXPECT_STREQ(operation_for(0, kBoth, 1)->name, "copy_pages");
  EXPECT_STREQ(operation_for(ATTN_FEATURE_APPEND, kBoth, 1)->name, "append");
  EXPECT_EQ(operation_for(0, ATTN_FEATURE_APPEND, 1), &operations::forward);
}

}  // namespace
}  // namespace attnfuzz
