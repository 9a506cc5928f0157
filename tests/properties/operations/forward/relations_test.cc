// Tests that every property holds for a right kernel over drawn cases, and that each
// planted flaw is caught by the properties that should catch it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>
#include <limits>

#include "properties/case/places/planted_rank.h"
#include "properties/data/recipe.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "properties/operations/forward/relations/tools.h"
#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

GeneratorConfig config() {
  GeneratorConfig config;
  config.variants = 1;
  config.tiles_q = {FakeTarget::kTileQ};
  config.tiles_k = {FakeTarget::kTileK};
  config.splits = true;
  config.work = 300'000;
  return config;
}

std::string sentence(const Verdict& v) { return std::string(to_string(v.kind)) + ": " + v.message; }

// The caller of a check says whether the LSE holds the sink, whatever an untrusted plan says.
TEST(SinkAsKey, ComparesIfTheCallersLseHoldsTheSink) {
  class Declares final : public OracleTarget {
   public:
    int32_t declared = 0, computed = 0;
    int runs = 0;
    PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
      PlanReply reply = OracleTarget::plan(p, t, env);
      reply.plan.lse_sink = declared;
      return reply;
    }
    RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
                 const attn_env& env, int stream) override {
      attn_plan own = plan;
      own.lse_sink = computed, ++runs;
      return OracleTarget::run(stage, p, t, own, env, stream);
    }
  };
  Case c;
  c.problem.seq_q = 2, c.problem.seq_k = 3;
  c.problem.sink = Sink{.kind = SinkKind::kZero};
  tidy(c);
  for (const int32_t of_caller : {0, 1}) {
    Calibration calibration = documented();
    calibration.error_cap = documented_cap();
    calibration.error_cap->lse_sink = of_caller;
    for (const int32_t of_plan : {0, 1}) {
      Declares target;
      target.declared = of_plan, target.computed = of_caller;
      const Verdict v = judge(c, *find_property("sink_as_key"), target, calibration);
      EXPECT_EQ(v.outcome, Outcome::kPass) << "caller " << of_caller << " plan " << of_plan << ": " << v.message;
      EXPECT_EQ(target.runs, of_caller ? 1 : 2) << "caller " << of_caller << " plan " << of_plan;
    }
  }
}

class EveryProperty : public testing::TestWithParam<const Property*> {};

TEST_P(EveryProperty, HoldsOfARightKernel) {
  const Property& property = *GetParam();
  FakeTarget target;
  constexpr int kCases = 150;
  int rejected = 0;
  for (int n = 0; n < kCases; ++n) {
    const Verdict v = judge(draw(config(), 11, n), property, target, documented());
    ASSERT_NE(v.outcome, Outcome::kFail) << "case " << n << ": " << sentence(v);
    rejected += v.outcome == Outcome::kRefused;
  }
  EXPECT_LE(rejected, kCases / 20);
}

// P that is divided by its sum before it is rounded has subnormal weights in fp16. The bound allows for them whether the
// plan says so or not.
TEST_P(EveryProperty, HoldsOfATextbookKernel) {
  const Property& property = *GetParam();
  for (const Flaw order : {Flaw::kTextbook, Flaw::kTextbookOpen}) {
    FakeTarget target(order);
    for (int n = 0; n < 40; ++n) {
      const Verdict v = judge(draw(config(), 15, n), property, target, documented());
      ASSERT_NE(v.outcome, Outcome::kFail) << to_string(order) << ", case " << n << ": " << sentence(v);
    }
  }
}

// Infinity times 0 is NaN. If a hidden key holds infinity, the columns of such a kernel may be anything.
TEST_P(EveryProperty, HoldsOfAKernelThatMultipliesHiddenValuesByZero) {
  const Property& property = *GetParam();
  FakeTarget target(Flaw::kHiddenTimesZero);
  for (int n = 0; n < 60; ++n) {
    Case c = draw(config(), 14, n);
    Problem& p = c.problem;
    if (p.batch == 0 || p.seq_q == 0 || p.heads_q == 0) continue;
    p.causal = true;
    p.align = ATTN_TOP_LEFT;
    p.seq_k = std::max(p.seq_k, p.seq_q + 1);  // the last query does not see the last key
    c.planted = {
        {TensorId::kV, 0, 0, p.seq_k - 1, 0, bits_of(p.dtype, std::numeric_limits<float>::infinity())}};
    if (illegal(c)) continue;
    const Verdict v = judge(c, property, target, documented());
    ASSERT_NE(v.outcome, Outcome::kFail) << "case " << n << ": " << sentence(v);
  }
}

TEST_P(EveryProperty, AdaptsACaseOnce) {
  const Property& property = *GetParam();
  const FakeTarget target;
  for (int n = 0; n < 300; ++n) {
    Case c = draw(config(), 12, n);
    std::string why;
    ASSERT_TRUE(property.adapt(c, target.info(), &why)) << why;
    EXPECT_FALSE(illegal(c)) << "case " << n << ": " << *illegal(c);
    Case again = c;
    ASSERT_TRUE(property.adapt(again, target.info(), &why)) << why;
    EXPECT_EQ(again, c) << "case " << n;
  }
}

// As codes of 8 bits, V just fits its 32 GiB. As numbers of 16 bits it does not.
TEST_P(EveryProperty, AdaptsToACaseThatMemoryHolds) {
  const Property& property = *GetParam();
  FakeTarget target;
  target.take_features(ATTN_FEATURE_KV8);
  Case c;
  c.problem.seq_k = 256;
  set_kv8(c, Kv8{});
  c.layout[static_cast<size_t>(TensorId::kV)].spread = (int64_t{1} << 35) / 256 - 4096;
  ASSERT_EQ(illegal(c), std::nullopt);
  std::string why;
  if (!adapted(c, property, target, &why)) GTEST_SKIP() << why;
  EXPECT_EQ(illegal(c), std::nullopt);
}

// The properties of the forward pass, because the fake has no other operation.
std::vector<const Property*> properties_of_forward() {
  std::vector<const Property*> all(properties().begin(), properties().end());
  std::erase_if(all,
                [](const Property* property) { return !of_its_operation(*property, FakeTarget().info()); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Relations, EveryProperty, testing::ValuesIn(properties_of_forward()),
                         [](const auto& info) { return std::string(info.param->name); });

// The kernel uses V's scale of key 0 for every key. That shows only in cases with 8 bits and scales by key.
TEST(Kv8As16, FindsAScaleOfAnotherKey) {
  constexpr uint64_t kNarrow = OracleTarget::kForward | ATTN_FEATURE_KV8;
  Case c;
  c.problem.seq_q = 3, c.problem.seq_k = 9, c.problem.dim_qk = c.problem.dim_v = 8;
  c.q = c.k = c.v = {.kind = FillKind::kGaussian, .seed = 1};
  OracleTarget right(nullptr, kNarrow);
  const Verdict held = judge(c, *find_property("kv8_as_16"), right, documented());
  EXPECT_EQ(held.outcome, Outcome::kPass) << held.message;
  OracleTarget wrong([](attn_problem&, attn_tensors& t) { t.v_scale.stride[2] = 0; }, kNarrow);
  const Verdict reference = judge(c, *find_property("reference"), wrong, documented());
  EXPECT_EQ(reference.outcome, Outcome::kPass) << reference.message;
  EXPECT_EQ(judge(c, *find_property("kv8_as_16"), wrong, documented()).outcome, Outcome::kFail);
}

// A kernel for D = 128 alone is judged: the relation has fewer keys, and the same columns.
TEST(Kv8As16, KeepsTheHeadDimensions) {
  constexpr uint64_t kNarrow = OracleTarget::kForward | ATTN_FEATURE_KV8;
  Case c;
  Problem& p = c.problem;
  p.batch = 2, p.heads_q = p.heads_kv = 4, p.seq_q = 3, p.seq_k = 200, p.dim_qk = p.dim_v = 128;
  c.q = c.k = c.v = {.kind = FillKind::kGaussian, .seed = 1};
  tidy(c);
  OracleTarget target(nullptr, kNarrow);
  std::string why;
  ASSERT_TRUE(adapted(c, *find_property("kv8_as_16"), target, &why)) << why;
  EXPECT_EQ(illegal(c), std::nullopt);
  EXPECT_EQ(p.dim_qk, 128);
  EXPECT_EQ(p.dim_v, 128);
  EXPECT_EQ(p.seq_k, 72) << "more than a tile of keys, and a ragged end as before";
}

TEST(KeyBlocks, RelationsHoldForARightKernelAndFindOneThatSeesABlockEarly) {
  constexpr uint64_t kBlocks = OracleTarget::kForward | ATTN_FEATURE_KEY_STEP;
  OracleTarget right(nullptr, kBlocks),
      early([](attn_problem& p, attn_tensors&) { p.key_offset /= 2; }, kBlocks);
  const Property& property = *find_property("key_blocks_as_bias");
  int found = 0;
  for (int n = 0; n < 60; ++n) {
    GeneratorConfig small = config();
    small.features = kBlocks, small.work = 20'000;
    const Case c = draw(small, 31, n);
    for (const char* name : {"key_blocks_as_bias", "key_blocks_none"}) {
      const Verdict held = judge(c, *find_property(name), right, documented());
      EXPECT_NE(held.outcome, Outcome::kFail) << name << ": " << held.message;
    }
    found += judge(c, property, early, documented()).outcome == Outcome::kFail;
  }
  EXPECT_GT(found, 10);
}

// A right kernel with a path of its own for entries with lengths, packed or dense. It may refuse key lengths,
// and it may change the last bit of all results of packed calls, which stay within their bounds.
class PathOfLengths final : public OracleTarget {
 public:
  PathOfLengths(bool refuses, bool changes) : refuses_(refuses), changes_(changes) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& tensors, const attn_env& env) override {
    if (refuses_ && p.has_key_lengths && p.ragged == 0) {
      PlanReply refused;
      refused.status = ATTN_UNSUPPORTED;
      refused.reason = "key lengths";
      return refused;
    }
    PlanReply reply = OracleTarget::plan(p, tensors, env);
    std::snprintf(reply.plan.path, sizeof reply.plan.path,
                  p.has_key_lengths || p.ragged != 0 ? "lengths" : "short");
    return reply;
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    const Sequences sequences(p, t);
    for (int64_t b = 0; changes_ && p.ragged != 0 && b < p.batch; ++b) {
      for (int64_t i = 0; i < sequences.queries.length(b); ++i) {
        const StoredRow at = sequences.query_row(b, i);
        float& x = static_cast<float*>(t.o.data)[offset_of(t.o, at.entry, 0, at.row, 0)];
        x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ 1);
      }
    }
    return reply;
  }

 private:
  const bool refuses_, changes_;
};

// An entry alone has no lengths and takes another path. Among as many keys as the packed entries, with a key
// length, it takes theirs, and then its bits are compared.
TEST(PackedAlone, ComparesBitsOnThePathOfPackedEntries) {
  Case c;
  Problem& p = c.problem;
  p.dtype = ATTN_F32;
  p.batch = 2, p.seq_q = 3, p.seq_k = 9, p.dim_qk = p.dim_v = 4;
  p.causal = true, p.align = ATTN_BOTTOM_RIGHT;
  p.packed_q = Packing{.lengths = {3, 2}}, p.packed_k = Packing{.lengths = {9, 5}};
  c.q = c.k = c.v = {.kind = FillKind::kGaussian, .seed = 3};
  tidy(c);
  const auto judged = [&](PathOfLengths target) {
    return judge(c, *find_property("packed_alone"), target, documented());
  };
  const Verdict right = judged({false, false});
  EXPECT_EQ(right.outcome, Outcome::kPass) << sentence(right);
  EXPECT_TRUE(right.by_bits);
  EXPECT_EQ(right.by_bounds, "");
  const Verdict refusing = judged({true, false});
  EXPECT_EQ(refusing.outcome, Outcome::kPass) << sentence(refusing);
  EXPECT_FALSE(refusing.by_bits);
  EXPECT_EQ(refusing.by_bounds, "path differs");
  EXPECT_EQ(judged({true, true}).outcome, Outcome::kPass) << "a last bit alone is within the bounds";
  const Verdict changed = judged({false, true});
  EXPECT_EQ(changed.kind, Kind::kRelation);
  EXPECT_NE(changed.message.find("batch entry 1 alone, among as many keys"), std::string::npos)
      << sentence(changed);
}

TEST(BitExact, IsFoundByItsOlderName) {
  ASSERT_NE(find_property("bit_exact"), nullptr);
  EXPECT_EQ(find_property(std::string("as_") + "planned"), find_property("bit_exact"));
}

TEST(BitExact, NeedsADevicesArithmeticAndACompletePlan) {
  const Property& property = *find_property("bit_exact");
  FakeTarget target;
  Case c;
  const Verdict any = judge(c, property, target, documented());
  EXPECT_EQ(any.outcome, Outcome::kRefused);
  EXPECT_NE(any.message.find("--arithmetic device:h200"), std::string::npos) << any.message;
  c.env.arithmetic = ATTN_ARITHMETIC_H200;
  const Verdict open = judge(c, property, target, h200());
  EXPECT_EQ(open.outcome, Outcome::kRefused);
  EXPECT_NE(open.message.find("not judged by bit_exact: the plan leaves "), std::string::npos) << open.message;
}

// A property, the flaw that it must catch, the kind of failure, and the number of drawn
// cases. kNone: the kind depends on the drawn case.
struct Catch {
  Flaw flaw;
  const char* property;
  Kind kind;
  int within;
};

void PrintTo(const Catch& c, std::ostream* out) { *out << to_string(c.flaw) << " by " << c.property; }

class EveryFlaw : public testing::TestWithParam<Catch> {};

TEST_P(EveryFlaw, IsCaught) {
  const Catch& expected = GetParam();
  FakeTarget target(expected.flaw);
  const Property* property = find_property(expected.property);
  ASSERT_NE(property, nullptr);
  for (int n = 0; n < expected.within; ++n) {
    const Verdict v = judge(draw(config(), 13, n), *property, target, documented());
    if (v.outcome != Outcome::kFail) continue;
    // The flaw may first show as another kind: a trusted workspace also gives wrong numbers.
    if (expected.kind != Kind::kNone && v.kind != expected.kind) continue;
    RecordProperty("cases", n + 1);
    std::printf("caught by %s in case %d; %s\n", expected.property, n + 1, sentence(v).c_str());
    return;
  }
  FAIL() << "not caught in " << expected.within << " cases";
}

INSTANTIATE_TEST_SUITE_P(Flaws, EveryFlaw,
                         testing::Values(Catch{Flaw::kDropsLastKey, "reference", Kind::kNone, 240},
                                         Catch{Flaw::kDropsLastKey, "exact_mean", Kind::kNone, 240},
                                         Catch{Flaw::kWholeTileLost, "exact_mean", Kind::kNone, 400},
                                         Catch{Flaw::kFirstKeyTwice, "exact_mean", Kind::kNone, 240},
                                         Catch{Flaw::kHeadMap, "gqa", Kind::kNone, 240},
                                         Catch{Flaw::kBatchScale, "alone", Kind::kNone, 240},
                                         Catch{Flaw::kSoftcapIgnored, "reference", Kind::kNone, 600},
                                         Catch{Flaw::kWindowExclusive, "reference", Kind::kNone, 600},
                                         Catch{Flaw::kWindowOverflow, "window_wide", Kind::kNone, 240},
                                         Catch{Flaw::kAlignIgnored, "reference", Kind::kNone, 400},
                                         Catch{Flaw::kLengthIgnored, "permute_batch", Kind::kNone, 600},
                                         Catch{Flaw::kMaskBroadcast, "mask_as_bias", Kind::kNone, 600},
                                         Catch{Flaw::kBiasClipped, "reference", Kind::kNone, 1600},
                                         Catch{Flaw::kStrideOfV, "layout", Kind::kNone, 400},
                                         Catch{Flaw::kLseBase, "prob_sum", Kind::kNone, 80},
                                         Catch{Flaw::kLseBase, "key_shift", Kind::kNone, 160},
                                         Catch{Flaw::kLseBase, "bias_shift", Kind::kNone, 160},
                                         Catch{Flaw::kNanOnDeadRow, "dead_rows", Kind::kNonFinite, 80},
                                         Catch{Flaw::kDeadRowDisturbs, "dead_rows", Kind::kRelation, 400},
                                         Catch{Flaw::kConstantAdded, "constant_value", Kind::kNone, 160},
                                         Catch{Flaw::kConstantAdded, "scale_value", Kind::kNone, 160},
                                         Catch{Flaw::kVClipped, "linear_value", Kind::kNone, 400},
                                         Catch{Flaw::kNoMaximum, "reference", Kind::kNone, 800},
                                         Catch{Flaw::kFlushesP, "reference", Kind::kNone, 2000},
                                         Catch{Flaw::kScoresClipped, "reference", Kind::kNone, 800},
                                         Catch{Flaw::kScaleRounded, "reference", Kind::kNone, 400},
                                         Catch{Flaw::kReductionCountsTwice, "stages", Kind::kNone, 240},
                                         Catch{Flaw::kReductionCountsTwice, "constant_value", Kind::kNone, 400},
                                         Catch{Flaw::kReductionTrustsFirst, "splits", Kind::kNone, 400},
                                         Catch{Flaw::kReductionTrustsFirst, "merge_order", Kind::kNone, 400},
                                         Catch{Flaw::kSplitsWeighed, "interval_weight", Kind::kNone, 160},
                                         Catch{Flaw::kPartialLseWrong, "stages", Kind::kNone, 160},
                                         Catch{Flaw::kBatchRounds, "permute_batch", Kind::kRelation, 600},
                                         Catch{Flaw::kBatchRounds, "alone", Kind::kRelation, 600},
                                         Catch{Flaw::kHeadRounds, "permute_heads", Kind::kRelation, 600},
                                         Catch{Flaw::kHiddenKeyRounds, "future", Kind::kRelation, 600},
                                         Catch{Flaw::kLayoutRounds, "layout", Kind::kRelation, 600},
                                         Catch{Flaw::kScaleRounds, "exact_scale", Kind::kRelation, 600},
                                         Catch{Flaw::kHeadsAligned, "layout", Kind::kFault, 600},
                                         Catch{Flaw::kWorkspaceTrusted, "repeat", Kind::kDirty, 160},
                                         Catch{Flaw::kKeepsPartials, "repeat", Kind::kNone, 80},
                                         Catch{Flaw::kCountsCalls, "repeat", Kind::kDirty, 160},
                                         Catch{Flaw::kStreamMatters, "repeat", Kind::kDirty, 160},
                                         Catch{Flaw::kWritesPast, "reference", Kind::kRedzone, 80},
                                         Catch{Flaw::kSkipsLastRow, "reference", Kind::kNone, 80},
                                         Catch{Flaw::kSkipsLse, "prob_sum", Kind::kNone, 80},
                                         Catch{Flaw::kWritesInput, "reference", Kind::kInputChanged, 80},
                                         Catch{Flaw::kReadsBeyondLength, "future", Kind::kNonFinite, 240},
                                         Catch{Flaw::kNanLeaksBatch, "nan_visible", Kind::kNonFinite, 400},
                                         Catch{Flaw::kNanSwallowed, "nan_visible", Kind::kNonFinite, 80},
                                         Catch{Flaw::kRefusesSilently, "contract", Kind::kRefusal, 400},
                                         Catch{Flaw::kRefusesLate, "contract", Kind::kRefusal, 400},
                                         Catch{Flaw::kAcceptsDims, "contract", Kind::kRefusal, 1},
                                         Catch{Flaw::kAcceptsNanScale, "contract", Kind::kRefusal, 1},
                                         Catch{Flaw::kPlanNonsense, "contract", Kind::kBadPlan, 1},
                                         Catch{Flaw::kPlansIn32Bits, "contract", Kind::kBadPlan, 1},
                                         Catch{Flaw::kLeavesForNoKeys, "contract", Kind::kRefusal, 1},
                                         Catch{Flaw::kIgnoresVariant, "contract", Kind::kBadPlan, 1},
                                         Catch{Flaw::kCrashes, "reference", Kind::kCrash, 240},
                                         Catch{Flaw::kHangs, "reference", Kind::kHang, 240},
                                         Catch{Flaw::kFaults, "reference", Kind::kFault, 240}),
                         [](const auto& info) {
                           return std::string(to_string(info.param.flaw)) + "_by_" + info.param.property;
                         });

// Refuses an O whose heads or batch entries are not 16 bytes apart. The property `layout` tolerates this
// refusal.
class RefusesOddHeads final : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    if (fake_o_is_aligned(p, t)) return FakeTarget::plan(p, t, env);
    ++refused;
    PlanReply reply;
    reply.status = ATTN_UNSUPPORTED;
    reply.reason = "heads that are no 16 bytes apart";
    return reply;
  }
  int refused = 0;
};

TEST(Layout, IsJudgedEvenIfAnOddViewIsRefused) {
  RefusesOddHeads target;
  Case c;
  c.problem.batch = c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.seq_q = c.problem.seq_k = 20;
  c.problem.dim_qk = c.problem.dim_v = 8;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    c.q = c.k = c.v = Fill{.kind = FillKind::kGaussian, .seed = seed};
    const Verdict v = judge(c, *find_property("layout"), target, documented());
    EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
    EXPECT_EQ(v.message, "");
    EXPECT_EQ(v.call, 0);
    EXPECT_EQ(v.ratios.size(), 3u) << "the case, with gaps, and one view or the other";
  }
  EXPECT_GT(target.refused, 0);
}

// The sum of two weighted partial results, with fp16 rounding of the products and the sum.
double sum_in_fp16(double a, double b) {
  const auto rounded = [](double x) {
    const uint16_t bits = encode16(ATTN_F16, static_cast<float>(x));
    return decode(ATTN_F16, &bits, 0);
  };
  return rounded(rounded(0.7 * a) + rounded(0.3 * b));
}

// Small fp16 numbers lose bits that their doubles keep.
TEST(Doubles, SumsInFp16DoNotScaleExactly) {
  int unlike = 0;
  for (int n = 1; n < 2000; ++n) {
    const double a = 0x1p-11 + n * 0x1p-21, b = n * 0x1p-24;
    unlike += 2 * sum_in_fp16(a, b) != sum_in_fp16(2 * a, 2 * b);
  }
  EXPECT_GT(unlike, 0);
  Problem p;
  attn_plan plan = {};
  plan.num_splits = 4;
  plan.partial_format = ATTN_FORMAT_F32;
  EXPECT_TRUE(relations::scales_through_sums(p, plan));
  plan.merge_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_FALSE(relations::scales_through_sums(p, plan));
  plan.merge_format = 0, plan.partial_format = ATTN_FORMAT_UNKNOWN;
  EXPECT_FALSE(relations::scales_through_sums(p, plan)) << "they may be fp16";
  plan.num_splits = 1;
  EXPECT_TRUE(relations::scales_through_sums(p, plan)) << "there are none";
  plan.partial_format = ATTN_FORMAT_OF_INPUT;
  EXPECT_FALSE(relations::scales_through_sums(p, plan)) << "one partial result is rounded, too";
  p.dtype = ATTN_BF16;
  EXPECT_TRUE(relations::scales_through_sums(p, plan));
}

}  // namespace
}  // namespace attnfuzz
