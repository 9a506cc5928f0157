// Tests lists of blocks: the keys that the oracle lets a query see, and that the rest equals the forward pass.
#include "reference/selected.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "reference/rows/visibility.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

// A problem with lists, in int32.
struct Listed {
  Listed(const Shape& shape, int64_t block, int64_t select) : c(shape) {
    c.fill(Regime::kGaussian, 5);
    p = c.problem;
    p.features |= ATTN_FEATURE_SELECTED | ATTN_FEATURE_INDEX32;
    p.index_dtype = ATTN_INDEX_32;
    p.block = block, p.select = select;
    list.assign(static_cast<size_t>(p.batch * p.heads_kv * p.seq_q * select), -1);
  }
  attn_tensors tensors() {
    attn_tensors t = c.tensors();
    t.indices = {list.data(), {p.heads_kv * p.seq_q * p.select, p.seq_q * p.select, p.select, 1}};
    return t;
  }
  std::vector<int64_t> keys(int64_t b, int64_t h, int64_t i, int64_t begin, int64_t end) {
    std::vector<int64_t> keys;
    row_keys(p, tensors(), b, h, i, begin, end, &keys);
    return keys;
  }

  Case c;
  attn_problem p;
  std::vector<int32_t> list;
};

using Keys = std::vector<int64_t>;

TEST(Selected, AListIsASetOfBlocks) {
  Listed one({.seq_q = 1, .seq_k = 10}, 4, 4);
  one.list = {2, -1, 0, 2};
  EXPECT_EQ(one.keys(0, 0, 0, 0, 10), (Keys{0, 1, 2, 3, 8, 9})) << "the last block is incomplete";
  EXPECT_EQ(one.keys(0, 0, 0, 3, 9), (Keys{3, 8}));
  one.list = {-1, 3, std::numeric_limits<int32_t>::max(), -1};
  EXPECT_EQ(one.keys(0, 0, 0, 0, 10), Keys{}) << "blocks behind the last key";
}

TEST(Selected, CausalOrderAndLengthsCutBlocks) {
  Listed two({.seq_q = 3, .seq_k = 10, .causal = true, .align = ATTN_BOTTOM_RIGHT}, 4, 1);
  two.list = {1, 1, 2};
  EXPECT_EQ(two.keys(0, 0, 0, 0, 10), (Keys{4, 5, 6, 7}));
  EXPECT_EQ(two.keys(0, 0, 2, 0, 10), (Keys{8, 9}));
  two.list = {2, 2, 2};
  EXPECT_EQ(two.keys(0, 0, 0, 0, 10), Keys{}) << "the diagonal is key 7";
  EXPECT_EQ(two.keys(0, 0, 1, 0, 10), Keys{8});
  const int32_t length = 6;
  attn_tensors t = two.tensors();
  two.p.has_key_lengths = 1;
  t.key_lengths = reinterpret_cast<const int64_t*>(&length);
  std::vector<int64_t> keys;
  two.list = {1, 1, 1};
  for (int64_t i = 0; i < 3; ++i) {
    row_keys(two.p, t, 0, 0, i, 0, 10, &keys);
    EXPECT_EQ(keys, (std::vector<Keys>{Keys{}, {4}, {4, 5}})[static_cast<size_t>(i)]) << "the diagonal ends at key 5";
  }
}

// Query heads of a group have one list, each KV head its own.
TEST(Selected, EachKvHeadHasItsList) {
  Listed four({.batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 1, .seq_k = 4}, 1, 1);
  four.list = {0, 1, 2, 3};
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(four.keys(b, h, 0, 0, 4), Keys{2 * b + h / 2});
  }
}

// sees() and row_keys() must agree on each key.
TEST(Selected, SeesAndRowKeysAgree) {
  std::mt19937 random(1);
  for (int n = 0; n < 200; ++n) {
    Listed any({.heads_q = 2, .seq_q = 4, .seq_k = 1 + n % 19, .causal = n % 2 == 0}, 1 + n % 7, 1 + n % 5);
    any.p.align = n % 3 == 0 ? ATTN_TOP_LEFT : ATTN_BOTTOM_RIGHT;
    for (int32_t& index : any.list) index = static_cast<int32_t>(random() % 24) - 1;
    const attn_tensors t = any.tensors();
    for (int64_t i = 0; i < 4; ++i) {
      const Keys keys = any.keys(0, 1, i, 0, any.p.seq_k);
      for (int64_t j = -1; j <= any.p.seq_k; ++j)
        ASSERT_EQ(sees(any.p, t, 0, 1, i, j), std::ranges::count(keys, j) > 0) << n << " " << i << " " << j;
    }
  }
}

// If each key is alone in its block of an mma, values and bounds equal those of the forward pass with a mask. (In fp16
// the loss of subnormal factors depends on these blocks as well.)
TEST(Selected, EqualsAMask) {
  const Shape shape = {.dtype = ATTN_BF16,
                       .heads_q = 2,
                       .heads_kv = 1,
                       .seq_q = 6,
                       .seq_k = 37,
                       .causal = true,
                       .align = ATTN_BOTTOM_RIGHT,
                       .mask = true};
  Listed listed(shape, 5, 3);
  listed.p.has_mask = 0;
  std::mt19937 random(7);
  for (int32_t& index : listed.list) index = static_cast<int32_t>(random() % 10) - 1;
  const attn_tensors t = listed.tensors();
  attn_problem masked = listed.c.problem;
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t j = 0; j < 37; ++j)
        listed.c.mask[static_cast<size_t>((h * 6 + i) * 37 + j)] = sees(listed.p, t, 0, h, i, j);
    }
  }
  attn_plan plan = listed.c.plan;
  plan.rescales = 37;  // as many as there are tiles below
  const Reference a = evaluate_selected(listed.p, t, plan, documented());
  plan.tile_k = 1;
  const Reference b = evaluate(masked, listed.c.tensors(), plan, documented());
  for (const TensorId id : {TensorId::kO, TensorId::kLse}) {
    EXPECT_EQ(a[id].value, b[id].value);
    EXPECT_EQ(a[id].bound, b[id].bound);
  }
}

// Keys may be taken in the order of a list, whatever order a plan declares.
TEST(Selected, DeclaredOrdersAreNotRead) {
  Listed listed({.seq_q = 4, .seq_k = 40}, 8, 5);
  for (size_t n = 0; n < listed.list.size(); ++n) listed.list[n] = static_cast<int32_t>(n % 5);
  attn_plan ordered = listed.c.plan;
  ordered.key_order = ATTN_KEYS_ASCENDING, ordered.max_rule = ATTN_MAX_RUNNING, ordered.sum_lanes = 4;
  const Reference any = evaluate_selected(listed.p, listed.tensors(), listed.c.plan, documented());
  const Reference said = evaluate_selected(listed.p, listed.tensors(), ordered, documented());
  EXPECT_EQ(any[TensorId::kO].value, said[TensorId::kO].value);
  EXPECT_EQ(any[TensorId::kO].bound, said[TensorId::kO].bound);
  // But a running maximum says that the sum divides at the end.
  ordered.p_order = ATTN_P_ANY;
  EXPECT_EQ(evaluate_selected(listed.p, listed.tensors(), ordered, documented())[TensorId::kO].bound,
            any[TensorId::kO].bound);
}

// A kernel may gather listed keys, so an mma may add fewer of them at once than neighbours. The dimension is 1, so
// the score has one product, whatever an mma adds.
TEST(Selected, AnyKeyMayBeAloneInItsBlockOfAnMma) {
  Listed listed({.seq_q = 4, .seq_k = 40, .dim_qk = 1}, 1, 40);
  for (size_t n = 0; n < listed.list.size(); ++n) listed.list[n] = static_cast<int32_t>(n % 40);
  attn_plan narrow = listed.c.plan;
  ASSERT_EQ(narrow.accumulator, ATTN_ACC_TENSOR);
  ASSERT_GT(narrow.mma_block, 1);
  narrow.mma_block = 1;
  const Reference wide = evaluate_selected(listed.p, listed.tensors(), listed.c.plan, documented());
  const Reference alone = evaluate_selected(listed.p, listed.tensors(), narrow, documented());
  EXPECT_EQ(wide[TensorId::kO].bound, alone[TensorId::kO].bound);
  EXPECT_EQ(wide[TensorId::kLse].bound, alone[TensorId::kLse].bound);
}

TEST(Selected, RefusesUnknownFeatures) {
  Listed listed({}, 1, 1);
  listed.p.features |= ATTN_FEATURE_PAGED;
  EXPECT_THROW(evaluate_selected(listed.p, listed.tensors(), listed.c.plan, documented()), UnknownFeatures);
}

}  // namespace
}  // namespace attnfuzz
