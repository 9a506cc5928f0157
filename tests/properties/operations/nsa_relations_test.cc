// Properties of compressions of keys and of combinations by gates: each holds of every right kernel, of one that rounds
// as its plan says, too.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/case/shrink_toggles.h"
#include "properties/judge/trial.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz {
namespace {

using enum TensorId;

constexpr uint64_t kCompress = ATTN_FEATURE_NSA_COMPRESS | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32,
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

// Numbers that are planted in a tensor arrive as its others do.
TEST(NsaRelations, PlantedNumbersArrive) {
  OracleTarget compress(nullptr, kCompress), combine(nullptr, kCombine);
  Case keys = compression();
  keys.planted = {{.tensor = kK, .s = 2, .d = 3, .bits = 0x5f800000}, {.tensor = kV, .s = 1, .bits = 0xbf000000}};
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

}  // namespace
}  // namespace attnfuzz
