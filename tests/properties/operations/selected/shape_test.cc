// Tests attention over listed blocks that is made from a drawn case: it is legal, unchanged if made again,
// unchanged in files, and has lists of every kind in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/selection.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kOfSelected = ATTN_FEATURE_INDEX32 | ATTN_FEATURE_RAGGED;

const Operation& selected() { return operation_of(ATTN_FEATURE_SELECTED); }

TEST(SelectedShape, EveryDrawnCaseBecomesALegalOne) {
  ASSERT_STREQ(selected().name, "selected");
  std::set<SelectionKind> kinds;
  std::set<int64_t> blocks;
  int holes = 0, leading = 0, empty = 0, ordered = 0, tokens = 0, narrow = 0, causal = 0, cut = 0, several = 0;
  int packed_q = 0, packed_k = 0;
  for (uint64_t index = 0; index < 3000; ++index) {
    Case c = draw({.features = kOfSelected}, 5, index);
    selected().shape(c, kOfSelected);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    selected().shape(again, kOfSelected);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    const Problem& p = c.problem;
    kinds.insert(p.selection.kind), blocks.insert(p.block());
    holes += p.selection.holes > 0, leading += p.selection.leading, empty += p.selection.empty > 0;
    ordered += p.selection.order != 0, tokens += p.selection.tokens, narrow += p.index_dtype == ATTN_INDEX_32;
    causal += p.causal, cut += p.seq_k % p.block() != 0, several += p.heads_q > p.heads_kv;
    packed_q += p.packed_q.has_value(), packed_k += p.packed_k.has_value();
  }
  EXPECT_EQ(kinds.size(), static_cast<size_t>(kSelectionKinds));
  for (const int64_t block : {1, 16, 64}) EXPECT_TRUE(blocks.contains(block)) << block;
  EXPECT_GT(holes, 900);
  EXPECT_GT(leading, 400);
  EXPECT_GT(empty, 400);
  EXPECT_GT(ordered, 900);
  EXPECT_GT(tokens, 100);
  EXPECT_GT(narrow, 1000);
  EXPECT_GT(causal, 1500);
  EXPECT_GT(cut, 900);
  EXPECT_GT(several, 300);
  EXPECT_GT(packed_q, 400);
  EXPECT_GT(packed_k, 400);
}

// A kernel's domain declares causality and the alignment of the diagonal. The shape draws both.
TEST(SelectedShape, StaysWithinADomain) {
  for (const uint64_t operation : {ATTN_FEATURE_SELECTED, ATTN_FEATURE_NSA_SELECT}) {
    int causal = 0, unlike = 0;
    for (uint64_t index = 0; index < 300; ++index) {
      const Case drawn = draw({}, 5, index);
      Case c = drawn;
      make_call(operation_of(operation), c, operation);
      causal += c.problem.causal;
      Case as_drawn = c;
      shaped_as(drawn, as_drawn);
      EXPECT_EQ(as_drawn.problem.causal, drawn.problem.causal) << index;
      attn_domain domain = {};
      domain.size = sizeof domain;
      domain.causal = 1;
      Case never = c;
      shaped_within(domain, never);
      EXPECT_FALSE(never.problem.causal) << index;
      domain.causal = 2, domain.align = 1 + ATTN_TOP_LEFT;
      Case always = c;
      shaped_within(domain, always);
      EXPECT_TRUE(always.problem.causal) << index;
      if (always.problem.seq_q == always.problem.seq_k && !always.problem.key_lengths) continue;
      ++unlike;
      EXPECT_EQ(always.problem.align, ATTN_TOP_LEFT) << index;
      for (const Case& one : {as_drawn, never, always}) EXPECT_EQ(illegal(one), std::nullopt) << *illegal(one);
    }
    EXPECT_GT(causal, 100);
    EXPECT_GT(unlike, 50);
  }
  Case forward, same;
  attn_domain domain = {};
  domain.causal = 2;
  shaped_within(domain, forward);
  EXPECT_EQ(forward, same) << "it was drawn within its domain, or outside on purpose";
}

// A query sees the same keys by the recipe and by the lists in memory.
TEST(SelectedShape, ListsInMemoryAreThoseOfTheRecipe) {
  int64_t seen = 0, hidden = 0, dead = 0, packed = 0;
  for (uint64_t index = 0; index < 300; ++index) {
    Case c = draw({.features = kOfSelected}, 7, index);
    selected().shape(c, kOfSelected);
    const Problem& p = c.problem;
    if (p.seq_k > 300 || RowSpace(p).count() > 300) continue;
    Arena arena;
    LaidOut laid(c, arena);
    const attn_problem problem = laid.problem();
    const attn_tensors tensors = laid.tensors();
    for (int64_t row = 0; row < RowSpace(p).count(); ++row) {
      const auto [b, h, i] = RowSpace(p).at(row);
      if (i >= lengths_of(p, b).queries) continue;  // it has no list
      packed += p.packed_q && p.packed_k;
      int64_t keys = 0;
      for (int64_t j = 0; j < p.seq_k; ++j) {
        const bool sees_it = sees(c, b, h, i, j);
        ASSERT_EQ(sees_it, sees(problem, tensors, b, h, i, j)) << encode(c) << " " << row << " " << j;
        keys += sees_it;
      }
      seen += keys, hidden += p.seq_k - keys, dead += keys == 0;
    }
  }
  EXPECT_GT(seen, 10'000);
  EXPECT_GT(hidden, 10'000);
  EXPECT_GT(dead, 100);
  EXPECT_GT(packed, 200) << "rows of entries that are packed on both sides";
}

Problem of(int64_t seq_k, Selection selection) {
  Problem p;
  p.features = ATTN_FEATURE_SELECTED;
  p.seq_q = 4, p.seq_k = seq_k, p.causal = true, p.align = ATTN_BOTTOM_RIGHT;
  p.selection = selection;
  return p;
}

using List = std::vector<int64_t>;

List list_of(const Problem& p, int64_t i) { return listed_blocks(p, 0, i, {0, 0, i}); }

TEST(SelectedShape, KindsAreAsDocumented) {
  using enum SelectionKind;
  EXPECT_EQ(list_of(of(10, {.block = 4}), 3), (List{0, 1, 2})) << "all blocks by default";
  EXPECT_EQ(list_of(of(0, {.block = 4}), 3), (List{-1})) << "one index at least";
  EXPECT_EQ(list_of(of(10, {.block = 4, .select = 4}), 3), (List{0, 1, 2, -1}));
  EXPECT_EQ(list_of(of(10, {.block = 4, .select = 2, .kind = kRecent}), 3), (List{2, 1}));
  EXPECT_EQ(list_of(of(10, {.block = 4, .select = 2, .kind = kRecent}), 1), (List{1, 0}));
  EXPECT_EQ(list_of(of(10, {.block = 4, .select = 4, .kind = kRecent, .leading = true}), 3),
            (List{-1, 2, 1, 0}));
  EXPECT_EQ(list_of(of(10, {.block = 4, .select = 4, .kind = kRecent, .order = 1}), 3),
            (List{0, 1, 2, -1}));
  EXPECT_EQ(list_of(of(10, {.block = 4, .select = 2, .kind = kRecent, .empty = 1}), 3),
            (List{-1, -1}));
  EXPECT_EQ(list_of(of(10, {.block = 4, .tokens = true, .select = 1, .kind = kRecent}), 3),
            (List{8, 9, 10, 11}));
  List spread = list_of(of(100, {.block = 4, .select = 25, .kind = kSpread, .seed = 3}), 3);
  EXPECT_FALSE(std::ranges::is_sorted(spread));
  std::ranges::sort(spread);
  for (int64_t n = 0; n < 25; ++n) EXPECT_EQ(spread[static_cast<size_t>(n)], n);
  const List first_own = list_of(of(100, {.block = 4, .select = 3, .kind = kFirstOwn}), 3);
  EXPECT_EQ(first_own, (List{0, 24, 23}));
  const List repeated =
      list_of(of(100, {.block = 4, .select = 9, .kind = kRepeated, .seed = 1}), 3);
  EXPECT_LE(std::set<int64_t>(repeated.begin(), repeated.end()).size(), 3u);
  const List any = list_of(of(100, {.block = 4, .select = 200, .kind = kAnywhere, .seed = 1}), 3);
  EXPECT_TRUE(std::ranges::count(any, std::numeric_limits<int32_t>::max()) > 0 &&
              std::ranges::count(any, 26) > 0);
}

// The lists of an entry depend on its own lengths, not on the longest ones.
TEST(SelectedShape, APackedEntryHasTheListsThatItHasAlone) {
  for (int kind = 0; kind < kSelectionKinds; ++kind) {
    Problem p = of(40, {.block = 4, .select = 12, .kind = static_cast<SelectionKind>(kind), .seed = 7, .holes = 3});
    p.batch = 2, p.packed_q = Packing{.lengths = {1, 3}}, p.packed_k = Packing{.lengths = {40, 13}};
    Problem alone = p;
    alone.batch = 1, alone.packed_q.reset(), alone.packed_k.reset();
    alone.seq_q = 3, alone.seq_k = 13;
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_EQ(listed_blocks(p, 1, i, {1, 0, i}), listed_blocks(alone, 0, i, {1, 0, i})) << kind << " " << i;
  }
}

TEST(ChoiceShape, EveryDrawnCaseBecomesALegalOne) {
  const Operation& choice = operation_of(ATTN_FEATURE_NSA_SELECT);
  ASSERT_STREQ(choice.name, "nsa_select");
  std::set<FillKind> kinds;
  int few = 0, more = 0, forced = 0, narrow = 0, causal = 0, packed = 0;
  std::map<uint32_t, int> planted;
  for (uint64_t index = 0; index < 3000; ++index) {
    Case c = draw({.features = kOfSelected}, 5, index);
    choice.shape(c, kOfSelected);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    choice.shape(again, kOfSelected);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    const Problem& p = c.problem;
    kinds.insert(c.scores.kind);
    few += p.select()<p.blocks(), more += p.select()> p.blocks();
    forced += p.selection.first + p.selection.last > 0, narrow += p.index_dtype == ATTN_INDEX_32,
        causal += p.causal;
    packed += p.packed_q && p.packed_k;
    std::set<uint32_t> of_case;
    for (const Planted& x : c.planted) of_case.insert(x.bits);
    for (const uint32_t bits : of_case) ++planted[bits];
  }
  EXPECT_GE(kinds.size(), 8u);
  EXPECT_GT(few, 1000);
  EXPECT_GT(more, 300);
  EXPECT_GT(forced, 900);
  EXPECT_GT(narrow, 1000);
  EXPECT_GT(causal, 1500);
  EXPECT_GT(packed, 300);
  ASSERT_EQ(planted.size(), 3u) << "infinities, and NaN where it does not matter";
  EXPECT_GT(planted[0x7f800000], 15);
  EXPECT_GT(planted[0xff800000], 30);
  EXPECT_GT(planted[0x7fc00000], 15);
}

TEST(ChoiceShape, ScoresOfCandidatesAreNotNaN) {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_NSA_SELECT;
  p.seq_q = 2, p.seq_k = 8, p.causal = true;
  p.selection = {.block = 2, .select = 1};
  c.planted = {{.tensor = TensorId::kScores, .s = 1, .d = 1, .bits = 0x7fc00000}};
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  ASSERT_EQ(c.planted.size(), 1u) << "query 1 has block 0 alone";
  c.problem.align = ATTN_BOTTOM_RIGHT;
  ASSERT_TRUE(illegal(c).has_value());
  EXPECT_NE(illegal(c)->find("may choose"), std::string::npos) << *illegal(c);
  tidy(c);
  EXPECT_TRUE(c.planted.empty());
  c.planted = {{.tensor = TensorId::kScores, .bits = 0xff800000}};
  EXPECT_EQ(illegal(c), std::nullopt) << *illegal(c);
}

TEST(SelectedShape, ASelectionNeedsItsOperation) {
  Case c;
  c.problem.selection.block = 16;
  ASSERT_TRUE(illegal(c).has_value());
  EXPECT_NE(illegal(c)->find("selection is set"), std::string::npos) << *illegal(c);
  tidy(c);
  EXPECT_EQ(c, Case{});
  c.problem.features = ATTN_FEATURE_SELECTED;
  EXPECT_EQ(illegal(c), std::nullopt);
  c.problem.window_left = 3;
  EXPECT_NE(illegal(c)->find("has no window"), std::string::npos);
  tidy(c);
  EXPECT_EQ(illegal(c), std::nullopt);
}

}  // namespace
}  // namespace attnfuzz
