// Tests properties of compressions of keys and of combinations by gates: each holds for every right kernel,
// also for one that rounds as its plan declares.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/case/features/shrink_toggles.h"
#include "properties/judge/trial.h"
#include "tests/properties/support/packed_leak.h"

namespace attnfuzz {
namespace {

using enum TensorId;

constexpr uint64_t kCompress = ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED,
                   kCombine = ATTN_FEATURE_NSA_COMBINE | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32;

Verdict judged_stage(const char* property, const Case& c, Target& target) {
  return judge(c, *find_property(property), target, documented());
}

Case compression() {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_NSA_COMPRESS;
  p.dtype = ATTN_F32;
  p.seq_q = 5, p.seq_k = 40, p.dim_qk = p.dim_v = 4;
  p.key_step = 5, p.key_offset = 15;
  c.k = c.v = {.kind = FillKind::kGaussian, .seed = 1};
  tidy(c);
  return c;
}

Case combination() {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_NSA_COMBINE;
  p.seq_q = 64, p.seq_k = 0, p.dim_v = 64;
  c.o1 = {.kind = FillKind::kGaussian, .seed = 1};
  c.o2 = c.o3 = {.kind = FillKind::kGaussian, .seed = 2};
  c.gates = {.kind = FillKind::kGaussian, .seed = 3};
  tidy(c);
  return c;
}

// Planted numbers reach the outputs like all others.
TEST(NsaRelations, PlantedNumbersArrive) {
  OracleTarget compress(nullptr, kCompress), combine(nullptr, kCombine);
  Case keys = compression();
  keys.planted = {{.tensor = kK, .s = 2, .d = 3, .bits = 0x5f800000},
                  {.tensor = kV, .s = 1, .bits = 0xbf000000}};
  const Verdict v = judged_stage("compress_none", keys, compress);
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  Case sides = combination();
  sides.problem.dtype = ATTN_F32;
  sides.planted = {{.tensor = kO1, .d = 3, .bits = 0x5f800000}, {.tensor = kO3, .s = 2, .bits = 0xbf000000}};
  const Verdict w = judged_stage("combine_one_hot", sides, combine);
  EXPECT_EQ(w.outcome, Outcome::kPass) << w.message;
}

TEST(NsaRelations, PlantedGatesMoveWithTheirSides) {
  OracleTarget target(nullptr, kCombine);
  Case sides = combination();
  sides.problem.seq_q = 3;
  sides.planted = {{.tensor = kGates, .s = 1, .bits = 0x4500}, {.tensor = kGates, .s = 2, .d = 2, .bits = 0}};
  const Verdict v = judged_stage("combine_permuted", sides, target);
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
}

TEST(NsaRelations, RowsOfAnotherSideDoNotArrive) {
  OracleTarget wrong([](attn_problem&, attn_tensors& t) { std::swap(t.o1, t.o3); }, kCombine);
  Case sides = combination();
  EXPECT_EQ(judged_stage("combine_one_hot", sides, wrong).outcome, Outcome::kFail);
}

// Adds the keys of each tile of 8 keys, then adds these sums. Its plan declares tiles of `told` keys.
class SumsOfTiles final : public OracleTarget {
 public:
  explicit SumsOfTiles(int64_t told) : OracleTarget(nullptr, kCompress), told_(told) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    reply.plan.tile_k = told_;
    return reply;
  }
  RunReply run(Stage, const attn_problem& p, const attn_tensors& t, const attn_plan&, const attn_env&,
               int) override {
    const RowSpace rows(p);
    const Sequences sequences(p, t);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const Row at = rows.at(row);
      if (at.i >= sequences.queries.length(at.b)) continue;
      for (int64_t c = 0; c < p.dim_qk; ++c) mean(p, sequences, t.k, t.k_cmp, at, c);
      for (int64_t c = 0; c < p.dim_v; ++c) mean(p, sequences, t.v, t.v_cmp, at, c);
    }
    return {};
  }

 private:
  static constexpr int64_t kTile = 8;
  static void mean(const attn_problem& p, const Sequences& sequences, const attn_tensor& from,
                   const attn_tensor& to, const Row& at, int64_t c) {
    const int64_t first = at.i * p.key_step, end = first + p.key_offset + 1;
    float sum = 0;
    for (int64_t j = first; j < end && end <= sequences.keys.length(at.b);) {
      float of_tile = 0;
      const int64_t border = std::min(end, (j / kTile + 1) * kTile);
      for (; j < border; ++j) {
        const StoredRow key = sequences.key_row(at.b, j);
        of_tile += static_cast<const float*>(from.data)[offset_of(from, key.entry, at.h, key.row, c)];
      }
      sum += of_tile;
    }
    const StoredRow block = sequences.query_row(at.b, at.i);
    static_cast<float*>(to.data)[offset_of(to, block.entry, at.h, block.row, c)] =
        sum / static_cast<float>(p.key_offset + 1);
  }
  const int64_t told_;
};

// If keys move by a part of a tile, other keys are added together, and bits change.
TEST(NsaRelations, ShiftedBlocksKeepTheirBitsIfTilesStay) {
  Case dense = compression();
  dense.problem.seq_q = 20, dense.problem.seq_k = 200;
  Case packed = dense;
  packed.problem.batch = 2;
  packed.problem.packed_q = Packing{.lengths = {3, 18}},
  packed.problem.packed_k = Packing{.lengths = {61, 187}, .slack = 2};
  for (Case c : {dense, packed}) {
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
    SumsOfTiles right(8), told_wrong(5);
    const Verdict v = judged_stage("compress_shifted", c, right);
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
    EXPECT_EQ(judged_stage("reference", c, told_wrong).outcome, Outcome::kPass);
    const Verdict w = judged_stage("compress_shifted", c, told_wrong);
    EXPECT_EQ(w.outcome, Outcome::kFail) << "steps of 5 keys are whole tiles of 5 keys";
    c.problem.key_step = 8;
    EXPECT_EQ(judged_stage("compress_shifted", c, right).outcome, Outcome::kPass);
  }
}

Case packed_compression() {
  Case c = compression();
  c.problem.batch = 3, c.problem.key_step = 3, c.problem.key_offset = 4;
  c.problem.packed_q = Packing{.lengths = {5, 2, 4}, .slack = 1}, c.problem.packed_k = Packing{.lengths = {40, 0, 13}};
  tidy(c);
  return c;
}

// An entry's rows lie where cu_q says, and its blocks end with its own keys.
TEST(NsaRelations, PackedEntriesAreCompressedAsAlone) {
  Case c = packed_compression();
  OracleTarget right(nullptr, kCompress);
  for (const char* name :
       {"reference", "compress_packed_alone", "compress_none", "compress_outside", "compress_shifted"}) {
    const Verdict v = judged_stage(name, c, right);
    EXPECT_EQ(v.outcome, Outcome::kPass) << name << ": " << v.message;
    EXPECT_EQ(v.rows, 11) << name;
  }
  OracleTarget wrong(
      [](attn_problem& p, attn_tensors&) {
        if (p.ragged != 0) p.key_step = 2;
      },
      kCompress);
  EXPECT_EQ(judged_stage("reference", c, wrong).outcome, Outcome::kFail);
}

// Compresses nothing of packed entries in another way than it compresses: with V in place of K.
TEST(NsaRelations, PackedBlocksOfOneKeyAreThatKey) {
  OracleTarget wrong(
      [](attn_problem& p, attn_tensors& t) {
        if (p.ragged != 0 && p.key_step == 1) std::swap(t.k, t.v);
      },
      kCompress);
  Case c = packed_compression();
  c.v.seed = 2;
  EXPECT_EQ(judged_stage("reference", c, wrong).outcome, Outcome::kPass);
  EXPECT_EQ(judged_stage("compress_none", c, wrong).outcome, Outcome::kFail);
}

// Keys of the entry itself that are not in the block, and keys of the next entry.
TEST(NsaRelations, KeysOfPackedEntriesThatAreReadAreFound) {
  expect_leaks_found(kKCmp, kCompress, "compress_outside", [](uint64_t seed) {
    Case c = packed_compression();
    c.problem.packed_k->lengths = {40, 9, 13};
    c.k.seed = seed;
    return c;
  });
}

// A verdict says in words of the operation why a row must be 0 or NaN.
TEST(NsaRelations, VerdictsSayNothingOfQueriesThatSeeKeys) {
  Case c = compression();
  c.problem.seq_q = 20;  // only 5 rows are blocks
  OracleTarget shorter([](attn_problem& p, attn_tensors&) { p.key_offset = 0; }, kCompress);
  c.problem.key_step = 2;
  c.problem.seq_k = 15;
  const Verdict v = judged_stage("reference", c, shorter);
  EXPECT_NE(v.message.find("does not have all keys of this block: it must be exactly 0"), std::string::npos)
      << v.message;
  Case sides = combination();
  sides.planted = {{.tensor = kO2, .bits = 0x7e00}};
  OracleTarget without([](attn_problem&, attn_tensors& t) { t.o2 = t.o1; }, kCombine);
  const Verdict w = judged_stage("reference", sides, without);
  EXPECT_NE(w.message.find("a number that it is computed from is NaN: it must be NaN"), std::string::npos)
      << w.message;
}

}  // namespace
}  // namespace attnfuzz
