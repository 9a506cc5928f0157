// Tests compressions of keys and combinations by gates, made from drawn cases: they are legal, unchanged if made
// again, unchanged in files, and of many kinds.
#include <gtest/gtest.h>

#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kTakenByStages = ATTN_FEATURE_INDEX32 | ATTN_FEATURE_RAGGED;

// Makes calls of the operation from 1000 drawn cases, and passes each to `see`.
void see_all(const Operation& operation, void (*see)(const Case&, std::set<std::string>&), std::set<std::string>& seen) {
  for (uint64_t index = 0; index < 1000; ++index) {
    Case c = draw({.features = kTakenByStages}, 5, index);
    operation.shape(c, kTakenByStages);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    operation.shape(again, kTakenByStages);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    see(c, seen);
  }
}

void expect_refused(const Case& right, void (*change)(Case&)) {
  Case c = right;
  change(c);
  EXPECT_NE(illegal(c), std::nullopt) << encode(c);
}

TEST(CompressionShape, EveryDrawnCaseBecomesALegalCompression) {
  const Operation& operation = operation_of(ATTN_FEATURE_NSA_COMPRESS);
  ASSERT_STREQ(operation.name, "nsa_compress");
  std::set<std::string> seen;
  see_all(
      operation,
      [](const Case& c, std::set<std::string>& kinds) {
        const Problem& p = c.problem;
        const int64_t length = p.key_offset + 1, blocks = p.seq_k < length ? 0 : (p.seq_k - length) / p.key_step + 1;
        kinds.insert(p.key_step < length ? "overlap" : p.key_step > length ? "gaps" : "neighbours");
        kinds.insert(p.seq_q < blocks ? "fewer rows" : p.seq_q > blocks ? "more rows" : "as many rows");
        if (blocks == 0) kinds.insert("no block");
        if (p.seq_k % p.key_step != 0) kinds.insert("incomplete");
        if (p.key_lengths && p.index_dtype == ATTN_INDEX_32) kinds.insert("int32");
        if (c.nan_beyond_lengths) kinds.insert("nan beyond");
        if (!c.planted.empty()) kinds.insert("planted");
        if (c.once.k.batch || c.once.k.head) kinds.insert("once");
        if (p.packed_q) kinds.insert("packed rows");
        if (p.packed_k) kinds.insert("packed keys");
      },
      seen);
  EXPECT_EQ(seen, (std::set<std::string>{"overlap", "gaps", "neighbours", "fewer rows", "more rows", "as many rows",
                                         "no block", "incomplete", "int32", "nan beyond", "planted", "once",
                                         "packed rows", "packed keys"}));
}

TEST(CompressionShape, FieldsThatItLacksAreRefused) {
  Case c;
  operation_of(ATTN_FEATURE_NSA_COMPRESS).shape(c, 0);
  ASSERT_EQ(illegal(c), std::nullopt);
  expect_refused(c, [](Case& x) { x.problem.causal = true; });
  expect_refused(c, [](Case& x) { x.problem.heads_q = 2; });
  expect_refused(c, [](Case& x) { x.problem.key_step = 0; });
  expect_refused(c, [](Case& x) { x.problem.key_offset = -1; });
  expect_refused(c, [](Case& x) { x.q.kind = FillKind::kGaussian; });
  expect_refused(c, [](Case& x) { x.problem.features |= ATTN_FEATURE_NSA_COMBINE; });
  expect_refused(Case{}, [](Case& x) { x.problem.key_offset = 1; });
}

TEST(CombinationShape, EveryDrawnCaseBecomesALegalCombination) {
  const Operation& operation = operation_of(ATTN_FEATURE_NSA_COMBINE);
  ASSERT_STREQ(operation.name, "nsa_combine");
  std::set<std::string> seen;
  see_all(
      operation,
      [](const Case& c, std::set<std::string>& kinds) {
        const FillKind kind = c.gates.kind;
        if (kind == FillKind::kUniform) kinds.insert("sigmoids");
        if (kind == FillKind::kOneHot) kinds.insert("one hot");
        if (kind == FillKind::kSmallInt || kind == FillKind::kSignedZero) kinds.insert("zeros");
        if (c.o1 != c.o2 && c.o2 != c.o3) kinds.insert("different sides");
        for (const Planted& x : c.planted) kinds.insert(name_of(x.tensor));
      },
      seen);
  EXPECT_EQ(seen, (std::set<std::string>{"sigmoids", "one hot", "zeros", "different sides", "o1", "o2", "o3", "gates"}));
}

TEST(CombinationShape, FieldsThatItLacksAreRefused) {
  Case c;
  operation_of(ATTN_FEATURE_NSA_COMBINE).shape(c, 0);
  ASSERT_EQ(illegal(c), std::nullopt);
  expect_refused(c, [](Case& x) { x.problem.causal = true; });
  expect_refused(c, [](Case& x) { x.problem.seq_k = 1; });
  expect_refused(c, [](Case& x) { x.lse1.kind = FillKind::kGaussian; });
  expect_refused(c, [](Case& x) { x.sides.kind = PatternKind::kNothing; });
  expect_refused(c, [](Case& x) { x.problem.features |= ATTN_FEATURE_MERGE; });
  expect_refused(c, [](Case& x) { x.problem.packed_q = Packing{}; });
  expect_refused(Case{}, [](Case& x) { x.gates.kind = FillKind::kGaussian; });
}

TEST(CombinationShape, HasItsSidesAndGatesInMemory) {
  Case c;
  operation_of(ATTN_FEATURE_NSA_COMBINE).shape(c, 0);
  c.gates = c.o3 = Fill{};  // ones
  Arena arena;
  LaidOut laid(c, arena);
  const attn_tensors& t = laid.tensors();
  for (int64_t s = 0; s < 3; ++s) EXPECT_EQ(static_cast<const uint16_t*>(t.gates.data)[s * t.gates.stride[3]], 0x3c00);
  EXPECT_EQ(*static_cast<const uint16_t*>(t.o3.data), 0x3c00);
  EXPECT_EQ(t.lse1.data, nullptr);
  EXPECT_EQ(t.lse.data, nullptr);
  EXPECT_EQ(t.q.data, nullptr);
}

}  // namespace
}  // namespace attnfuzz
