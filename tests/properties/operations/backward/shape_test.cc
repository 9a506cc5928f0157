// Tests a backward pass that is made from a drawn case: it is legal, unchanged if made again, unchanged in files, and
// gets the O and LSE that a forward call stores.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/data/recipe.h"
#include "properties/data/sink_values.h"
#include "properties/draw/generator.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

using enum TensorId;

const Operation& backward() { return operation_of(ATTN_FEATURE_BACKWARD); }

TEST(BackwardShape, EveryDrawnCaseBecomesALegalBackwardPass) {
  ASSERT_STREQ(backward().name, "backward");
  std::set<FillKind> kinds;
  int repeated = 0, whole = 0, planted = 0, unlike = 0, moved = 0;
  for (uint64_t index = 0; index < 3000; ++index) {
    Case c = draw({.features = ATTN_FEATURE_SINK}, 5, index);
    backward().shape(c, 0);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    backward().shape(again, 0);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    kinds.insert(c.dout.kind);
    repeated += c.dout_repeated != Repeated{};
    whole += c.dout_repeated.query && c.dout_repeated.column;
    for (const Planted& x : c.planted) planted += x.tensor == kDout;
    const auto dout = geometry(c, kDout), o = geometry(c, kSavedO);
    unlike += dout->stride != o->stride;
    moved += c.layout[static_cast<size_t>(kDq)] != TensorLayout{};
  }
  EXPECT_GE(kinds.size(), 7u);
  EXPECT_GT(repeated, 100);
  EXPECT_GT(whole, 30);
  EXPECT_GT(planted, 5);
  EXPECT_GT(unlike, 600);
  EXPECT_GT(moved, 300);
}

// Files that name these kinds keep their values; -1e30 would leave dsink open.
TEST(BackwardShape, OnlyOneKindOfSinksIsFarBelow) {
  const auto value = [](const Case& c) { return sink_value(*c.problem.sink, 0); };
  Case c;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    c.problem.sink = Sink{.kind = SinkKind::kBelow, .seed = seed};
    EXPECT_GE(value(c), -40);
    c.problem.sink->kind = SinkKind::kMixed;
    EXPECT_TRUE(value(c) >= -40 || std::isinf(value(c)));
  }
  c.problem.sink = Sink{.kind = SinkKind::kFarBelow, .seed = 5};
  tidy(c);
  EXPECT_EQ(value(c), -1e30f);
  c.problem.features |= ATTN_FEATURE_BACKWARD | ATTN_FEATURE_DSINK;
  tidy(c);
  EXPECT_EQ(value(c), -60000);
}

// Some cases of a kernel that takes optional parts have them.
TEST(BackwardShape, HasOptionalPartsIfTheKernelTakesThem) {
  constexpr uint64_t kAll = ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS |
                            ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
  int dlse = 0, dbias = 0, dsink = 0, packed = 0, summed = 0, planted = 0;
  for (uint64_t index = 0; index < 3000; ++index) {
    Case c = draw({.features = kAll}, 5, index);
    backward().shape(c, kAll);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    backward().shape(again, kAll);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    dlse += is_present(c, kDlse), dbias += is_present(c, kDbias), dsink += is_present(c, kDsink);
    ASSERT_EQ(is_present(c, kDsink), is_present(c, kSink));
    packed += c.problem.packed_q.has_value();
    for (const Planted& x : c.planted) planted += x.tensor == kDlse;
    if (!is_present(c, kDbias)) continue;
    const std::array<bool, 4> once = attnfuzz::repeated(c, kDbias);
    ASSERT_EQ(once, attnfuzz::repeated(c, kBias));
    summed += once[0] || once[1] || once[2];
  }
  EXPECT_GT(dlse, 700);
  EXPECT_GT(dbias, 200);
  EXPECT_GT(dsink, 150);
  EXPECT_GT(packed, 300);
  EXPECT_GT(summed, 50);
  EXPECT_GT(planted, 0);
}

// If a bias is stored once for all heads, its dbias is stored once too, and is read for each head.
TEST(BackwardShape, DbiasIsStoredAsTheBiasIs) {
  Case c;
  c.problem.heads_q = c.problem.heads_kv = 3;
  c.problem.seq_q = c.problem.seq_k = 2;
  c.problem.bias.emplace();
  c.problem.bias->broadcast.head = true;
  backward().shape(c, 0);
  c.problem.features |= ATTN_FEATURE_DBIAS;
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  Arena arena;
  LaidOut laid(c, arena);
  const attn_tensor& dbias = laid.tensors().dbias;
  EXPECT_EQ(dbias.stride[1], 0);
  laid.before_call(Call{});
  for (int n = 0; n < 4; ++n) static_cast<float*>(dbias.data)[n] = static_cast<float>(n + 1);
  EXPECT_EQ(laid.read(kDbias), (std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
}

TEST(BackwardShape, FieldsThatItLacksAreRefused) {
  Case c;
  backward().shape(c, 0);
  ASSERT_EQ(illegal(c), std::nullopt);
  Case sinks = c;
  sinks.problem.sink.emplace();
  EXPECT_NE(illegal(sinks), std::nullopt);
  Case dbias = c;
  dbias.problem.features |= ATTN_FEATURE_DBIAS;
  EXPECT_NE(illegal(dbias), std::nullopt) << "there is no bias";
  Case given;
  given.problem.features |= ATTN_FEATURE_DLSE;
  EXPECT_NE(illegal(given), std::nullopt) << "no backward pass";
  Case slopes = c;
  slopes.problem.slopes.emplace();
  EXPECT_NE(illegal(slopes), std::nullopt);
  Case splits = c;
  splits.problem.num_splits = 2;
  EXPECT_NE(illegal(splits), std::nullopt);
  Case forward;
  forward.dout.kind = FillKind::kGaussian;
  EXPECT_NE(illegal(forward), std::nullopt);
  Case repeated;
  repeated.dout_repeated.query = true;
  EXPECT_NE(illegal(repeated), std::nullopt);
}

// dO is stored as one number: all its strides are 0, and every element reads it.
TEST(BackwardShape, DoMayBeOneNumber) {
  Case c;
  c.problem.batch = c.problem.seq_q = 2;
  c.problem.heads_q = c.problem.heads_kv = 3;
  c.problem.dim_v = 5;
  backward().shape(c, 0);
  c.dout = {.kind = FillKind::kGaussian, .seed = 4};
  c.dout_repeated = {.batch = true, .head = true, .query = true, .column = true};
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  Arena arena;
  LaidOut laid(c, arena);
  const attn_tensor& dout = laid.tensors().dout;
  for (const int64_t stride : dout.stride) EXPECT_EQ(stride, 0);
  const double number = decode(ATTN_F16, dout.data, 0);
  EXPECT_NE(number, 0);
  EXPECT_EQ(value_at(c, kDout, 1, 2, 1, 4), number);
  EXPECT_EQ(matrix_at(c, kDout, 1, 2), std::vector<double>(10, number));
}

TEST(BackwardShape, OAndLseAreInputs) {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 3;
  c.problem.causal = true;
  backward().shape(c, 0);
  Arena arena;
  LaidOut laid(c, arena);
  const attn_tensors& t = laid.tensors();
  ASSERT_NE(t.o.data, nullptr);
  ASSERT_NE(t.lse.data, nullptr);
  EXPECT_EQ(t.o1.data, nullptr);
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = 16;
  plan.num_splits = 1;
  const auto derive = [&](TensorId id, std::vector<std::byte> bytes) { laid.derive(id, std::move(bytes)); };
  backward().prepare(laid.problem(), laid.tensors(), plan, derive);
  // All scores and all values are 1.
  const auto lse = [&](int64_t i) { return static_cast<const float*>(t.lse.data)[i * t.lse.stride[2]]; };
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decode(ATTN_F16, t.o.data, i * t.o.stride[2]), 1);
    EXPECT_FLOAT_EQ(lse(i), static_cast<float>(1 + std::log(static_cast<double>(i + 1))));
  }
  plan.lse_base = 2;
  backward().prepare(laid.problem(), laid.tensors(), plan, derive);
  EXPECT_FLOAT_EQ(lse(1), static_cast<float>((1 + std::log(2.0)) / std::log(2.0)));
  EXPECT_FALSE(laid.check_planned().has_value());
  // A kernel that writes one of them fails.
  const_cast<float*>(static_cast<const float*>(t.lse.data))[0] = 7;
  const auto fault = laid.check_memory(false);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, MemoryFault::Kind::kInputChanged);
  EXPECT_EQ(fault->tensor, kSavedLse);
  EXPECT_NE(fault->message.find("saved_lse was written at (0,0,0,0)"), std::string::npos) << fault->message;
}

// A query that sees no key has O = 0 and the plan's LSE.
TEST(BackwardShape, SavedRowsWithoutKeysFollowThePlan) {
  Case c;
  c.problem.seq_q = 2;
  c.problem.mask.emplace();
  c.problem.mask->visible.kind = PatternKind::kNothing;
  backward().shape(c, 0);
  Arena arena;
  LaidOut laid(c, arena);
  attn_plan plan = {};
  plan.size = sizeof plan;
  plan.tile_q = plan.tile_k = 16;
  plan.num_splits = 1;
  plan.lse_dead = ATTN_LSE_DEAD_PLUS_INF;
  backward().prepare(laid.problem(), laid.tensors(), plan,
                     [&](TensorId id, std::vector<std::byte> bytes) { laid.derive(id, std::move(bytes)); });
  EXPECT_EQ(*static_cast<const float*>(laid.tensors().lse.data), INFINITY);
  EXPECT_EQ(*static_cast<const uint16_t*>(laid.tensors().o.data), 0);
}

TEST(BackwardShape, AKernelGetsOnlyItsOperations) {
  constexpr uint64_t kOnly = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_NO_FORWARD;
  EXPECT_EQ(operation_for(0, ATTN_FEATURE_BACKWARD), &operations::forward);
  EXPECT_EQ(operation_for(0, kOnly), &backward());
  EXPECT_EQ(operation_for(ATTN_FEATURE_BACKWARD, ATTN_FEATURE_BACKWARD), &backward());
}

}  // namespace
}  // namespace attnfuzz
