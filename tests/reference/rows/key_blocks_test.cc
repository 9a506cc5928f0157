// Tests keys that stand for blocks (ATTN_FEATURE_KEY_STEP): compares the rules of semantics.h with the keys of
// each block, and the oracle with a mask that hides the same keys.
#include <gtest/gtest.h>

#include "reference/rows/visibility.h"
#include "reference/semantics.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

// The number of whole blocks (step d, l keys) in a sequence of `length` keys.
int64_t whole_blocks(int64_t length, int64_t d, int64_t l) {
  int64_t blocks = 0;
  while (blocks * d + l <= length) ++blocks;
  return blocks;
}

attn_problem problem_of(int64_t d, int64_t l) {
  attn_problem p = {};
  p.window_left = p.window_right = -1;
  p.features = ATTN_FEATURE_KEY_STEP;
  p.key_step = d, p.key_offset = l - 1;
  return p;
}

TEST(KeyBlocks, AnEntryHasTheBlocksThatItsSequenceHasWhole) {
  for (int64_t d = 1; d < 6; ++d) {
    for (int64_t l = 1; l < 9; ++l) {
      const attn_problem p = problem_of(d, l);
      for (int64_t length = 0; length < 40; ++length) {
        EXPECT_EQ(keys_below(p, length), whole_blocks(length, d, l)) << d << " " << l << " " << length;
        const Lengths of = entry_lengths(p, 3, 5, length);
        EXPECT_EQ(of.keys, std::min<int64_t>(whole_blocks(length, d, l), 5));
        EXPECT_EQ(of.positions, std::min(length, 5 * d + l - 1)) << "all that 5 keys can stand for";
      }
      EXPECT_EQ(entry_lengths(p, 3, 5).keys, 5);
      EXPECT_EQ(entry_lengths(p, 3, 5, int64_t{1} << 40).positions, entry_lengths(p, 3, 5).positions);
      EXPECT_EQ(entry_lengths(p, 3, 5, -1).keys, 0);
    }
  }
}

TEST(KeyBlocks, AQuerySeesBlocksThatEndAtOrBeforeIt) {
  for (int64_t d = 1; d < 6; ++d) {
    for (int64_t l = 1; l < 9; ++l) {
      attn_problem p = problem_of(d, l);
      p.causal = 1, p.seq_q = 30, p.seq_k = 9;
      const Lengths prefill = entry_lengths(p, p.seq_q, p.seq_k, 30);
      attn_problem decode = p;
      decode.align = ATTN_BOTTOM_RIGHT, decode.seq_q = 1;
      for (int64_t t = 0; t < 30; ++t) {
        const KeyRange range = key_range(p, prefill, t);
        EXPECT_EQ(range.last, std::min<int64_t>(whole_blocks(t + 1, d, l), 9)) << d << " " << l << " " << t;
        for (int64_t j = 0; j < 9; ++j) EXPECT_EQ(visible(p, prefill, t, j), j < range.last);
        // The query is the last one of a sequence of t + 1 keys.
        const KeyRange same = key_range(decode, entry_lengths(decode, 1, 9, t + 1), 0);
        EXPECT_EQ(same.last, range.last) << d << " " << l << " " << t;
      }
    }
  }
}

TEST(KeyBlocks, WindowsCountPositions) {
  attn_problem p = problem_of(4, 8);
  p.window_left = 9, p.window_right = 2;
  const Lengths of = entry_lengths(p, 40, 7);
  for (int64_t i = 0; i < 40; ++i) {
    const KeyRange range = key_range(p, of, i);
    for (int64_t j = 0; j < 7; ++j) {
      const int64_t last = 4 * j + 7;
      EXPECT_EQ(visible(p, of, i, j), i - 9 <= last && last <= i + 2) << i << " " << j;
      EXPECT_EQ(visible(p, of, i, j), range.first <= j && j < range.last) << i << " " << j;
    }
  }
}

// A compression has the same fields, and its keys stand for themselves.
TEST(KeyBlocks, AreNotThoseOfACompression) {
  attn_problem p = problem_of(4, 8);
  p.features = ATTN_FEATURE_NSA_COMPRESS;
  EXPECT_EQ(entry_lengths(p, 1, 50, 33).keys, 33);
  EXPECT_EQ(position(p, 5), 5);
}

TEST(KeyBlocks, TheOracleAgreesWithAMask) {
  for (const int32_t align : {ATTN_TOP_LEFT, ATTN_BOTTOM_RIGHT}) {
    for (const auto& [d, l] : {std::pair{1, 1}, {2, 4}, {4, 4}, {5, 2}}) {
      const Shape shape = {.batch = 2, .heads_q = 2, .seq_q = 23, .seq_k = 7, .causal = true, .align = align};
      Case blocks(shape);
      blocks.fill(Regime::kGaussian, 3);
      const int64_t lengths[] = {23, 12};
      blocks.use_key_lengths({lengths[0], lengths[1]});
      blocks.problem.features |= ATTN_FEATURE_KEY_STEP;
      blocks.problem.key_step = d, blocks.problem.key_offset = l - 1;
      Shape plain = shape;
      plain.causal = false, plain.align = ATTN_TOP_LEFT, plain.mask = true;
      Case masked(plain);
      masked.q = blocks.q, masked.k = blocks.k, masked.v = blocks.v;
      for (size_t n = 0; n < masked.mask.size(); ++n) {
        const auto j = static_cast<int64_t>(n % 7), i = static_cast<int64_t>(n / 7 % 23);
        const int64_t length = lengths[n < masked.mask.size() / 2 ? 0 : 1];
        const int64_t t = align == ATTN_TOP_LEFT ? i : i + std::min<int64_t>(length, 7 * d + l - 1) - 23;
        masked.mask[n] = j * d + l <= length && j * d + l - 1 <= t;
      }
      const Reference one = blocks.reference(), other = masked.reference();
      ASSERT_EQ(one.state, other.state) << d << " " << l;
      for (const TensorId t : {TensorId::kO, TensorId::kLse})
        EXPECT_EQ(one[t].value, other[t].value) << d << " " << l;
    }
  }
}

}  // namespace
}  // namespace attnfuzz
