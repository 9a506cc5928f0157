// Tests Trial and judge(): the verdict of each way in which a call can end.
#include "properties/judge/trial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "properties/judge/judge.h"
#include "properties/judge/same_work.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

Case of_keys(int64_t seq) {
  Case c;
  Problem& p = c.problem;
  p.seq_q = p.seq_k = seq;
  p.batch = p.heads_q = p.heads_kv = 2;
  p.dim_qk = p.dim_v = 8;
  p.scale = 0.35f;
  c.q = c.k = c.v = Fill{.kind = FillKind::kGaussian, .seed = 1};
  return c;
}

Verdict verdict_of(const Case& c, Flaw flaw, const char* property = "reference") {
  FakeTarget target(flaw);
  return judge(c, *find_property(property), target, documented());
}

TEST(SameWork, NamesTheFirstFieldThatDiffers) {
  attn_plan a = {};
  a.size = sizeof a;
  a.deterministic = 1;
  attn_plan b = a;
  b.rescales = 5, b.workspace_bytes = 64;
  EXPECT_EQ(other_work(a, b), "") << "these do not affect the arithmetic of a row";
  b.num_splits = 2;
  EXPECT_EQ(other_work(a, b), "num_splits differs");
  EXPECT_FALSE(same_work(a, b));
  b = a, b.deterministic = 0;
  EXPECT_EQ(other_work(a, b), "a plan is not deterministic");
}

TEST(Trial, RightKernelPassesAndIsAccountedFor) {
  const Verdict v = verdict_of(of_keys(33), Flaw::kNone);
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_EQ(v.kind, Kind::kNone);
  EXPECT_EQ(v.property, "reference");
  EXPECT_EQ(v.rows, 2 * 2 * 33);
  EXPECT_EQ(v.sampled, v.rows);
  EXPECT_EQ(v.dead_rows, 0);
  EXPECT_EQ(v.plan.tile_k, FakeTarget::kTileK);
  ASSERT_EQ(v.ratios.size(), 1u);
  EXPECT_GT(v.worst, 0);
  EXPECT_LE(v.worst, 1);
  EXPECT_GT(v.oracle_s, 0);
}

TEST(Trial, ADroppedKeyIsWrongAndSaysWhere) {
  const Verdict v = verdict_of(of_keys(33), Flaw::kDropsLastKey);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_EQ(v.kind, Kind::kWrong) << v.message;
  ASSERT_TRUE(v.where);
  EXPECT_EQ(v.where->tensor, TensorId::kO);
  EXPECT_GT(std::fabs(v.where->got - v.where->expected), v.where->bound);
  EXPECT_EQ(v.where->of, 2 * 2 * 33 * 8);
  EXPECT_GT(v.where->bad, 0);
  EXPECT_GT(v.worst, 1);
}

TEST(Trial, EveryWayToFailHasItsKind) {
  Case causal = of_keys(17);
  causal.problem.causal = true;
  causal.problem.align = ATTN_BOTTOM_RIGHT;
  causal.problem.seq_q = 40;  // the first 23 rows are dead
  const struct {
    Flaw flaw;
    Kind kind;
  } expected[] = {
      {Flaw::kNanOnDeadRow, Kind::kNonFinite},
      {Flaw::kWritesPast, Kind::kRedzone},
      {Flaw::kSkipsLastRow, Kind::kUnwritten},
      {Flaw::kSkipsLse, Kind::kUnwritten},
      {Flaw::kWritesInput, Kind::kInputChanged},
      {Flaw::kPlanNonsense, Kind::kBadPlan},
      {Flaw::kCrashes, Kind::kCrash},
      {Flaw::kHangs, Kind::kHang},
      {Flaw::kFaults, Kind::kFault},
      {Flaw::kLseBase, Kind::kWrong},
  };
  for (const auto& [flaw, kind] : expected) {
    const Verdict v = verdict_of(causal, flaw);
    EXPECT_EQ(v.outcome, Outcome::kFail) << to_string(flaw);
    EXPECT_STREQ(to_string(v.kind), to_string(kind)) << to_string(flaw) << ": " << v.message;
    EXPECT_FALSE(v.message.empty());
  }
}

TEST(Trial, OnlyLseWrongIsSaid) {
  const Verdict v = verdict_of(of_keys(20), Flaw::kLseBase);
  ASSERT_TRUE(v.where);
  EXPECT_EQ(v.where->tensor, TensorId::kLse);
  EXPECT_NE(v.message.find("O is right"), std::string::npos) << v.message;
}

TEST(Trial, UnwrittenNamesTheElement) {
  const Verdict v = verdict_of(of_keys(20), Flaw::kSkipsLastRow);
  ASSERT_TRUE(v.where);
  EXPECT_EQ(v.where->b, 1);
  EXPECT_EQ(v.where->h, 1);
  EXPECT_EQ(v.where->q, 19);
  EXPECT_EQ(v.where->tile_q, 1);
}

TEST(Trial, HugePoisonDoesNotHideAnUnwrittenRow) {
  Case c = of_keys(20);
  c.poison = Poison::kHuge;
  EXPECT_EQ(verdict_of(c, Flaw::kNone).outcome, Outcome::kPass);
  EXPECT_EQ(verdict_of(c, Flaw::kSkipsLastRow).outcome, Outcome::kFail);
}

TEST(Trial, ARefusalWithoutAReasonIsAFailure) {
  Case c = of_keys(8);
  c.problem.dim_qk = 80;
  EXPECT_EQ(verdict_of(c, Flaw::kNone).outcome, Outcome::kPass);
  const Verdict silent = verdict_of(c, Flaw::kRefusesSilently);
  EXPECT_EQ(silent.outcome, Outcome::kFail);
  EXPECT_EQ(silent.kind, Kind::kRefusal);
  const Verdict late = verdict_of(c, Flaw::kRefusesLate);
  EXPECT_EQ(late.outcome, Outcome::kFail);
  EXPECT_EQ(late.kind, Kind::kRefusal);
  FakeTarget no_stages(Flaw::kNone, false);
  const Verdict v = judge(c, *find_property("stages"), no_stages, documented());
  EXPECT_EQ(v.outcome, Outcome::kRefused);
  EXPECT_FALSE(v.message.empty());
}

TEST(Trial, AnIllegalCaseIsRejectedWithItsField) {
  Case c = of_keys(8);
  c.problem.heads_q = 3;
  const Verdict v = verdict_of(c, Flaw::kNone);
  EXPECT_EQ(v.outcome, Outcome::kRefused);
  EXPECT_NE(v.message.find("heads_q"), std::string::npos) << v.message;
}

TEST(Trial, CallsThatDifferAreDirtyAndTheCallIsNamed) {
  Case c = of_keys(8);
  c.calls = {Call{}, Call{.dirty_workspace = true, .stream = 0}};
  EXPECT_EQ(verdict_of(c, Flaw::kNone).outcome, Outcome::kPass);
  const Verdict v = verdict_of(c, Flaw::kWorkspaceTrusted);
  EXPECT_EQ(v.outcome, Outcome::kFail);
  // The flipped bit may also leave the bound.
  if (v.kind == Kind::kDirty) {
    EXPECT_EQ(v.call, 1);
    EXPECT_NE(v.message.find("dirty workspace"), std::string::npos) << v.message;
  }
}

TEST(Trial, ZeroLengthsPass) {
  for (const auto& [batch, seq_q, seq_k] : {std::array<int64_t, 3>{0, 5, 5}, {2, 0, 5}, {2, 5, 0}, {1, 0, 0}}) {
    Case c = of_keys(5);
    c.problem.batch = batch;
    c.problem.seq_q = seq_q;
    c.problem.seq_k = seq_k;
    for (const Property* property : properties()) {
      FakeTarget target;
      if (!of_its_operation(*property, target.info())) continue;
      const Verdict v = judge(c, *property, target, documented());
      EXPECT_EQ(v.outcome, Outcome::kPass)
          << property->name << " " << batch << " " << seq_q << " " << seq_k << ": " << v.message;
    }
  }
}

TEST(Trial, RowsWithUncertainScoresAreUninformative) {
  Case c = of_keys(8);
  c.problem.dtype = ATTN_BF16;
  c.q = c.k = Fill{.kind = FillKind::kHuge, .seed = 3};
  c.problem.scale = 1;
  const Verdict v = verdict_of(c, Flaw::kNone);
  EXPECT_EQ(v.outcome, Outcome::kNotJudged) << v.message;
  EXPECT_GT(v.uninformative_rows + v.unconstrained_rows, 0);
}

TEST(Trial, HugeCasesAreSampledAndSaySo) {
  Case c = of_keys(600);
  c.problem.batch = 1;
  c.problem.heads_q = c.problem.heads_kv = 4;
  c.problem.dim_qk = c.problem.dim_v = 128;
  const Verdict v = verdict_of(c, Flaw::kNone);
  EXPECT_EQ(v.outcome, Outcome::kPass) << v.message;
  EXPECT_LT(v.sampled, v.rows);
  EXPECT_GT(v.sampled, 0);
}

// The longest length is far above the lengths. All rows are judged, because they cost little.
TEST(Trial, RowsOfShortPackedEntriesAreJudged) {
  Case c = of_keys(8192);
  Problem& p = c.problem;
  p.batch = 16, p.dim_qk = p.dim_v = 16;
  p.packed_q = p.packed_k = Packing{.lengths = std::vector<int64_t>(16, 16)};
  OracleTarget kernel, wrong([](attn_problem& x, attn_tensors& t) {
    static std::vector<int64_t> borders;  // of keys: entry 5 has one key, and entry 6 the others
    const auto* given = static_cast<const int64_t*>(t.cu_k);
    borders.assign(given, given + x.batch + 1);
    borders[6] -= 15;
    t.cu_k = borders.data();
  });
  const Verdict right = judge(c, *find_property("reference"), kernel, documented());
  EXPECT_EQ(right.outcome, Outcome::kPass) << right.message;
  EXPECT_EQ(right.rows, 2 * 16 * 16);
  EXPECT_EQ(right.sampled, right.rows);
  EXPECT_EQ(judge(c, *find_property("reference"), wrong, documented()).outcome, Outcome::kFail);
}

TEST(Trial, APassWithoutAComparedRowIsNone) {
  Verdict v;
  v.rows = 5;
  weigh_rows(v);
  EXPECT_EQ(v.outcome, Outcome::kNotJudged);
  EXPECT_EQ(v.message, "none of 5 rows was compared");
  Verdict planned;  // of a property that runs nothing
  weigh_rows(planned);
  EXPECT_EQ(planned.outcome, Outcome::kPass);
}

// A kernel that takes 64 queries alone, and says so.
class OneLengthTarget : public OracleTarget {
 public:
  explicit OneLengthTarget(Misreads misreads = nullptr) : OracleTarget(misreads) {
    attn_domain domain = {};
    domain.size = sizeof domain;
    domain.seq_q.least = domain.seq_q.most = 64;
    terms = domain;
  }
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    if (p.seq_q == 64) return OracleTarget::plan(p, t, env);
    PlanReply refused;
    refused.status = ATTN_UNSUPPORTED;
    refused.reason = "other than 64 queries";
    return refused;
  }
};

// packed_slack runs a variant outside of the kernel's domain: the relation does not apply, and the kernel has refused
// nothing. packed_alone finds an entry inside of the domain.
TEST(Judge, ARelationThatLeavesTheDomainDoesNotApply) {
  Case c = of_keys(64);
  c.problem.packed_q = c.problem.packed_k = Packing{.lengths = {17, 64}};
  for (const char* property : {"packed_alone", "packed_slack"}) {
    OneLengthTarget right, wrong([](attn_problem& p, attn_tensors&) { p.scale *= 1.1f; }), unlimited;
    unlimited.terms.reset();
    const Verdict v = judge(c, *find_property(property), right, documented());
    const bool applies = std::string_view(property) == "packed_alone";
    EXPECT_EQ(v.outcome, applies ? Outcome::kPass : Outcome::kRefused) << property << ": " << v.message;
    EXPECT_FALSE(v.refused);
    EXPECT_EQ(v.message.find("the relation does not apply") != std::string::npos, !applies) << v.message;
    EXPECT_EQ(judge(c, *find_property(property), wrong, documented()).outcome, Outcome::kFail) << property;
    // The kernel of this test refuses what it did not exclude.
    if (std::string_view(property) == "packed_slack")
      EXPECT_EQ(judge(c, *find_property(property), unlimited, documented()).outcome, Outcome::kRefused);
  }
  Case outside = of_keys(63);  // the case itself is refused
  OneLengthTarget target;
  EXPECT_EQ(judge(outside, *find_property("reference"), target, documented()).outcome, Outcome::kRefused);
}

// plan() cannot see the lengths of packed entries, so the judge holds a case to them.
TEST(Judge, EqualLengthsAreThoseOfPackedEntries) {
  Case c = of_keys(9);
  c.problem.packed_q = c.problem.packed_k = Packing{.lengths = {9, 4}};
  OracleTarget target;
  target.terms.emplace().size = sizeof(attn_domain);
  target.terms->equal_lengths = 1;
  EXPECT_EQ(judge(c, *find_property("reference"), target, documented()).outcome, Outcome::kPass);
  c.problem.packed_k->lengths[1] = 5;
  const Verdict v = judge(c, *find_property("reference"), target, documented());
  EXPECT_EQ(v.outcome, Outcome::kRefused);
  EXPECT_NE(v.message.find("equal lengths"), std::string::npos) << v.message;
  c.problem.packed_k.reset();  // the keys of each entry are those of the longest
  EXPECT_EQ(judge(c, *find_property("reference"), target, documented()).outcome, Outcome::kRefused);
  const Property& packed = *find_property("packed_alone");  // packs a dense case
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Case dense = of_keys(9);
    dense.q.seed = dense.k.seed = seed;
    std::string why;
    ASSERT_TRUE(adapted(dense, packed, target, &why)) << why;
    ASSERT_TRUE(dense.problem.packed_q && dense.problem.packed_k);
    EXPECT_EQ(dense.problem.packed_q->lengths, dense.problem.packed_k->lengths);
  }
}

// plan() writes to the chosen place; run() is right.
class HastyTarget : public FakeTarget {
 public:
  enum Spot { kO, kLse, kBehindO, kK, kLengths };
  explicit HastyTarget(Spot spot) : spot_(spot) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = FakeTarget::plan(p, t, env);
    if (reply.status != ATTN_OK) return reply;
    uint16_t* const o = static_cast<uint16_t*>(t.o.data);
    if (spot_ == kO) o[0] = 0x3c00;
    if (spot_ == kLse) static_cast<float*>(t.lse.data)[0] = 1;
    if (spot_ == kBehindO) o[p.batch * p.heads_q * p.seq_q * p.dim_v] = 0x3c00;
    if (spot_ == kK) static_cast<uint16_t*>(t.k.data)[3] ^= 1;
    if (spot_ == kLengths) const_cast<int64_t*>(t.key_lengths)[0] = 1;
    return reply;
  }

 private:
  const Spot spot_;
};

TEST(Trial, RunsOfTheSameNumbersShareTheReference) {
  FakeTarget target(Flaw::kNone);
  const Case base = of_keys(33);
  Trial trial(base, target, documented());
  const auto* first = trial.run(base);
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(first->shared);
  Case elsewhere = base;
  elsewhere.layout[static_cast<size_t>(TensorId::kK)].row_gap = 8;
  elsewhere.layout[static_cast<size_t>(TensorId::kV)].order = {0, 2, 1};
  elsewhere.poison = Poison::kHuge;
  elsewhere.env.schedule_seed = 7;
  const auto* moved = trial.run(elsewhere);
  ASSERT_NE(moved, nullptr);
  EXPECT_TRUE(moved->shared);
  const Reference anew = trial.laid_out()->evaluate(documented());
  EXPECT_EQ(moved->reference.state, anew.state);
  for (const Expected& due : anew.outputs) {
    const Expected& shared = moved->reference[due.tensor];
    EXPECT_EQ(shared.value, due.value);
    EXPECT_EQ(shared.bound, due.bound);
    EXPECT_EQ(shared.exact, due.exact);
    EXPECT_EQ(shared.rule, due.rule);
  }
  // Each field that the oracle reads makes other numbers.
  const auto evaluates = [&](Case c) {
    const auto* run = trial.run(c);
    return run && !run->shared;
  };
  Case other = base;
  other.v.seed = 2;
  EXPECT_TRUE(evaluates(other));
  other = base;
  other.once.k.head = true;
  EXPECT_TRUE(evaluates(other));
  other = base;
  other.planted = {{.tensor = TensorId::kQ, .bits = 0x3c00}};
  EXPECT_TRUE(evaluates(other));
  other = base;
  other.problem.causal = true;
  EXPECT_TRUE(evaluates(other));
  other = base;
  other.remap.head_kv = Axis{.multiply = -1, .add = 1, .modulus = 2};
  EXPECT_TRUE(evaluates(other));
}

TEST(Judge, FindsWritesInPlan) {
  const struct {
    HastyTarget::Spot spot;
    Kind kind;
    const char* message;
  } expected[] = {
      {HastyTarget::kO, Kind::kRefusal, "o was written by plan(), which must only plan"},
      {HastyTarget::kLse, Kind::kRefusal, "lse was written by plan()"},
      {HastyTarget::kBehindO, Kind::kRedzone, "past the end of o was written by plan()"},
      {HastyTarget::kK, Kind::kInputChanged, "the input k was written at (0,0,0,3) by plan()"},
      {HastyTarget::kLengths, Kind::kInputChanged, "the input key_lengths was written"},
  };
  Case c = of_keys(17);
  c.problem.key_lengths.emplace(static_cast<size_t>(c.problem.batch), 17);
  for (const auto& [spot, kind, message] : expected) {
    HastyTarget target(spot);
    const Verdict v = judge(c, *find_property("reference"), target, documented());
    EXPECT_EQ(v.outcome, Outcome::kFail) << message;
    EXPECT_EQ(v.kind, kind) << message;
    EXPECT_NE(v.message.find(message), std::string::npos) << v.message;
  }
}

TEST(Judge, FindsWritesAroundAnEmptyOutput) {
  for (int64_t Problem::* none : {&Problem::batch, &Problem::seq_q}) {
    Case c = of_keys(17);
    c.problem.*none = 0;
    HastyTarget target(HastyTarget::kBehindO);
    const Verdict v = judge(c, *find_property("reference"), target, documented());
    EXPECT_EQ(v.kind, Kind::kRedzone) << v.message;
    EXPECT_FALSE(v.where);
  }
}

TEST(Judge, BitsDifferButNansAreEqual) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {1, nan, 0.0f}, same[] = {1, -nan, 0.0f}, other[] = {1, nan, -0.0f};
  EXPECT_FALSE(first_difference(a, same));
  EXPECT_EQ(first_difference(a, other), 2);
}

TEST(Registry, NamesAreUniqueAndFound) {
  ASSERT_GE(properties().size(), 27u);
  for (const Property* property : properties()) {
    EXPECT_EQ(find_property(property->name), property);
    EXPECT_GT(std::strlen(property->statement), 20u);
  }
  EXPECT_EQ(find_property("no such property"), nullptr);
}

}  // namespace
}  // namespace attnfuzz
