// Tests scores of blocks made from drawn cases: they are legal, unchanged if made again, unchanged in files,
// and of many kinds. Tests that each relation holds for the oracle, and fails for a kernel that breaks it.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "properties/case/codec/codec.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "properties/operations/operation.h"
#include "tests/properties/support/packed_leak.h"

namespace attnfuzz {
namespace {

using enum TensorId;

constexpr uint64_t kScoring =
    ATTN_FEATURE_NSA_SCORE | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;

void note_kinds(const Case& c, std::set<std::string>& seen) {
  const Problem& p = c.problem;
  seen.insert(p.seq_k == 0 ? "no key" : p.key_step <= p.key_offset ? "overlap" : "apart");
  if (p.selection.block % p.key_step != 0) seen.insert("no multiple");
  if (p.heads_q > p.heads_kv) seen.insert("group");
  if (p.causal) seen.insert(p.align == ATTN_TOP_LEFT ? "top left" : "bottom right");
  if (p.selection.first > 0) seen.insert("first");
  if (p.selection.last > 0) seen.insert("last");
  if (p.select() > p.blocks()) seen.insert("longer lists");
  if (p.key_lengths) seen.insert("lengths");
  if (p.index_dtype == ATTN_INDEX_32) seen.insert("int32");
  if (!c.want_lse) seen.insert("no scores");
  if (!c.planted.empty()) seen.insert("planted");
  if (p.packed_q) seen.insert("packed queries");
  if (p.packed_k) seen.insert("packed keys");
}

TEST(ScoreShape, EveryDrawnCaseBecomesALegalCall) {
  const Operation& operation = operation_of(ATTN_FEATURE_NSA_SCORE);
  ASSERT_STREQ(operation.name, "nsa_score");
  std::set<std::string> seen;
  for (uint64_t index = 0; index < 1000; ++index) {
    Case c = draw({.features = ATTN_FEATURE_RAGGED}, 5, index);
    make_call(operation, c, kScoring);
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    Case again = c;
    make_call(operation, again, kScoring);
    tidy(again);
    ASSERT_EQ(again, c) << encode(c);
    const auto read = decode(encode(c));
    ASSERT_TRUE(std::holds_alternative<Case>(read) && std::get<Case>(read) == c) << encode(c);
    note_kinds(c, seen);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"no key", "overlap", "apart", "no multiple", "group", "top left",
                                         "bottom right", "first", "last", "longer lists", "lengths", "int32",
                                         "no scores", "planted", "packed queries", "packed keys"}));
}

TEST(ScoreShape, CallsStayInTheDomain) {
  GeneratorConfig config;
  attn_domain& domain = config.domain.emplace();
  domain.size = sizeof(attn_domain);
  domain.seq_k.least = 32, domain.seq_k.multiple = 16;
  domain.equal_lengths = domain.usual_scale = 1, domain.causal = 2;
  for (uint64_t index = 0; index < 300; ++index) {
    Case c = draw(config, 5, index);
    make_call(operation_of(ATTN_FEATURE_NSA_SCORE), c, kScoring);
    shaped_within(domain, c);
    const Problem& p = c.problem;
    ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
    EXPECT_TRUE(p.seq_k >= 32 && p.seq_k % 16 == 0 && p.seq_k == p.seq_q) << encode(c);
    EXPECT_TRUE(p.causal && p.scale == 1 / std::sqrt(static_cast<float>(p.dim_qk))) << encode(c);
  }
}

// Fields that other operations of native sparse attention draw anew stay in the domain, too.
TEST(ChoiceAndCompression, CallsStayInTheDomain) {
  GeneratorConfig config;
  config.features = ATTN_FEATURE_RAGGED;
  attn_domain& domain = config.domain.emplace();
  domain.size = sizeof(attn_domain);
  domain.heads_q = {.count = 1, .list = {8}}, domain.seq_q = {.count = 1, .list = {16}};
  for (const uint64_t operation : {ATTN_FEATURE_NSA_SELECT, ATTN_FEATURE_NSA_COMPRESS}) {
    for (uint64_t index = 0; index < 300; ++index) {
      Case c = draw(config, 5, index);
      make_call(operation_of(operation), c, operation | ATTN_FEATURE_NO_FORWARD | ATTN_FEATURE_RAGGED);
      shaped_within(domain, c);
      const Problem& p = c.problem;
      ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c) << "\n" << encode(c);
      EXPECT_TRUE(p.heads_q == 8 && p.heads_kv == 8 && p.seq_q == 16) << encode(c);
    }
  }
}

TEST(ScoreShape, FieldsThatItLacksAreRefused) {
  Case c;
  make_call(operation_of(ATTN_FEATURE_NSA_SCORE), c, 0);
  ASSERT_EQ(illegal(c), std::nullopt);
  const auto expect_refused = [&](auto change) {
    Case other = c;
    change(other);
    EXPECT_NE(illegal(other), std::nullopt) << encode(other);
  };
  expect_refused([](Case& x) { x.problem.window_left = 3; });
  expect_refused([](Case& x) { x.problem.softcap = 1; });
  expect_refused([](Case& x) { x.problem.dim_v = 2; });
  expect_refused([](Case& x) { x.problem.key_step = 0; });
  expect_refused([](Case& x) { x.problem.key_offset = 70000; });
  expect_refused([](Case& x) { x.problem.selection.last = x.problem.select() + 1; });
  expect_refused([](Case& x) { x.problem.paging = Paging{}; });
  expect_refused([](Case& x) { x.scores.kind = FillKind::kGaussian; });
  expect_refused([](Case& x) { x.v.kind = FillKind::kGaussian; });
  expect_refused([](Case& x) { x.problem.features |= ATTN_FEATURE_NSA_SELECT; });
}

Case scoring() {
  Case c;
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_NSA_SCORE;
  p.heads_q = 4, p.heads_kv = 2, p.seq_q = 40, p.seq_k = 18, p.dim_qk = 8;
  p.key_step = 2, p.key_offset = 3;
  p.causal = true, p.align = ATTN_TOP_LEFT;
  p.selection = {.block = 4, .select = 3, .first = 1, .last = 1};
  c.q = {.kind = FillKind::kGaussian, .seed = 1};
  c.k = {.kind = FillKind::kGaussian, .seed = 2};
  tidy(c);
  return c;
}

constexpr const char* kRelations[] = {
    "reference", "repeat", "layout", "score_decode", "score_future", "score_heads_doubled", "score_order"};

TEST(ScoreRelations, HoldForTheOracle) {
  OracleTarget target(nullptr, kScoring);
  for (const char* name : kRelations) {
    const Verdict v = judge(scoring(), *find_property(name), target, documented());
    EXPECT_EQ(v.outcome, Outcome::kPass) << name << ": " << v.message;
    EXPECT_EQ(v.rows, 2 * 40) << name;
    EXPECT_EQ(v.sampled, 2 * 40) << name;
  }
}

Case packed_scoring() {
  Case c = scoring();
  c.problem.batch = 3, c.problem.packed_q = Packing{.lengths = {7, 40, 12}, .slack = 2},
  c.problem.packed_k = Packing{.lengths = {18, 0, 11}, .slack = 1};
  tidy(c);
  return c;
}

TEST(ScoreRelations, HoldForPackedEntries) {
  OracleTarget right(nullptr, kScoring);
  for (const char* name : {"reference", "score_packed_alone", "score_order", "score_heads_doubled",
                           "score_decode", "score_future"}) {
    const Verdict v = judge(packed_scoring(), *find_property(name), right, documented());
    EXPECT_EQ(v.outcome, Outcome::kPass) << name << ": " << v.message;
    EXPECT_EQ(v.rows, 2 * 59) << name;
    EXPECT_EQ(v.sampled, 2 * 59) << name;
  }
}

TEST(ScoreRelations, WrongKernelsFail) {
  const auto outcome = [](OracleTarget::Misreads misreads) {
    OracleTarget target(misreads, kScoring);
    const Verdict v = judge(scoring(), *find_property("reference"), target, documented());
    return v.outcome == Outcome::kFail && v.kind == Kind::kWrong;
  };
  EXPECT_TRUE(outcome([](attn_problem& p, attn_tensors&) { p.select_last = 0; })) << "no block by its place";
  EXPECT_TRUE(outcome([](attn_problem& p, attn_tensors&) { p.scale *= 1.5f; })) << "other scores";
  EXPECT_TRUE(outcome([](attn_problem& p, attn_tensors&) { p.key_offset -= 1; })) << "keys seen too early";
}

// Judges a kernel by a relation that must fail, although the kernel is right for the case by itself.
Verdict breaks(const char* relation, Target& target, const Case& c) {
  const Verdict alone = judge(c, *find_property("reference"), target, documented());
  EXPECT_EQ(alone.outcome, Outcome::kPass) << relation << ": " << alone.message;
  const Verdict v = judge(c, *find_property(relation), target, documented());
  EXPECT_EQ(v.outcome, Outcome::kFail) << relation;
  return v;
}

TEST(ScoreRelations, ADecodeOfItsOwnIsFound) {
  OracleTarget target([](attn_problem& p, attn_tensors&) { p.scale *= p.seq_q == 1 ? 2.0f : 1.0f; }, kScoring);
  const Verdict v = breaks("score_decode", target, scoring());
  EXPECT_NE(v.message.find("alone"), std::string::npos) << v.message;
}

// A decode of packed entries has its own path, too: packed queries, one in each entry.
TEST(ScoreRelations, APackedDecodeOfItsOwnIsFound) {
  OracleTarget target(
      [](attn_problem& p, attn_tensors&) {
        const bool packed = (p.ragged & ATTN_RAGGED_QUERIES) != 0;
        p.scale *= packed && p.seq_q == 1 ? 2.0f : 1.0f;
      },
      kScoring);
  Case c = packed_scoring();
  c.problem.packed_k->lengths = {18, 7, 11};  // each query sees keys, or none because it comes first
  const Verdict v = breaks("score_decode", target, c);
  EXPECT_NE(v.message.find("alone"), std::string::npos) << v.message;
}

// Decodes with P in fp16, and takes blocks that tie within the rounding of P in the order of their numbers.
class RoundsInDecode : public OracleTarget {
 public:
  RoundsInDecode() : OracleTarget(ignores_keys, kScoring) {}
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    PlanReply reply = OracleTarget::plan(p, t, env);
    if (p.seq_q == 1) reply.plan.p_format = ATTN_FORMAT_F16;
    return reply;
  }

 private:
  static void ignores_keys(attn_problem& p, attn_tensors& t) {
    static const std::vector<uint16_t> zeros(4096);
    if (p.seq_q == 1) t.k.data = const_cast<uint16_t*>(zeros.data());
  }
};

// The block of the planted keys scores 2^-12 more than the others. Prefill sees that, and decode need not.
TEST(ScoreRelations, ADecodeThatRoundsMoreMayChooseOtherwise) {
  Case c = scoring();
  c.q = c.k = {.kind = FillKind::kZero};
  c.problem.selection.first = c.problem.selection.last = 0, c.problem.selection.select = 1;
  c.problem.causal = false, c.problem.scale = 1;
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t i = 0; i < 40; ++i) c.planted.push_back({kQ, 0, h, i, 0, 0x3c00});  // 1
  for (int64_t g = 0; g < 2; ++g)
    for (int64_t j = 8; j < 12; ++j) c.planted.push_back({kK, 0, g, j, 0, 0x0c00});  // 2^-12
  tidy(c);
  ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
  RoundsInDecode target;
  for (const char* name : {"reference", "score_decode"}) {
    const Verdict v = judge(c, *find_property(name), target, documented());
    EXPECT_EQ(v.outcome, Outcome::kPass) << name << ": " << v.message;
  }
}

TEST(ScoreRelations, HeadsThatAreLeftOutAreFound) {
  OracleTarget target([](attn_problem& p, attn_tensors&) { p.scale *= p.heads_q == 8 ? 2.0f : 1.0f; },
                      kScoring);
  const Verdict v = breaks("score_heads_doubled", target, scoring());
  EXPECT_NE(v.message.find("each query head twice"), std::string::npos) << v.message;
}

// The scale of this kernel depends, within the bounds, on values of keys that some queries do not see.
TEST(ScoreRelations, KeysOfTheFutureThatAreReadAreFound) {
  OracleTarget target(
      [](attn_problem& p, attn_tensors& t) {
        const RowSpace keys(p.batch, p.heads_kv, p.seq_k);
        int planted = 0;
        for (int64_t row = 0; row < keys.count(); ++row) {
          const Row at = keys.at(row);
          const double x = decode(p.dtype, t.k.data, offset_of(t.k, at.b, at.h, at.i, p.dim_qk - 1));
          planted += x == 1.5 || std::isnan(x);
        }
        if (planted >= 2) p.scale *= 1 + 0x1p-22f;
      },
      kScoring);
  const Verdict v = breaks("score_future", target, scoring());
  EXPECT_EQ(v.kind, Kind::kRelation) << v.message;
  EXPECT_NE(v.message.find("must be bit-identical"), std::string::npos) << v.message;
}

// Keys of the entry itself that a query does not see, and keys of the next entry.
TEST(ScoreRelations, KeysOfPackedEntriesThatAreReadAreFound) {
  expect_leaks_found(kBlockScores, kScoring, "score_future", [](uint64_t seed) {
    Case c = packed_scoring();
    c.problem.packed_k->lengths = {18, 7, 11};
    c.q.seed = seed;
    return c;
  });
}

// Writes scores that are within their bounds, but in another order than that of its lists.
class OtherScores : public OracleTarget {
 public:
  OtherScores() : OracleTarget(nullptr, kScoring) {}
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int call) override {
    RunReply reply = OracleTarget::run(stage, p, t, plan, env, call);
    const RowSpace rows(p.batch, p.heads_kv, p.seq_q);
    for (int64_t row = 0; t.scores.data != nullptr && row < rows.count(); ++row) {
      const Row at = rows.at(row);
      for (int64_t j = 1; j < blocks_of(p); j += 2)
        static_cast<float*>(t.scores.data)[offset_of(t.scores, at.b, at.h, at.i, j)] *= 1 + 0x1p-23f;
    }
    return reply;
  }
};

TEST(ScoreRelations, AChoiceByOtherScoresThanTheWrittenIsFound) {
  OtherScores target;
  Case c = scoring();  // all scores of whole blocks tie
  c.q = {.kind = FillKind::kZero};
  c.problem.selection.first = c.problem.selection.last = 0;
  const Verdict v = breaks("score_order", target, c);
  EXPECT_EQ(v.kind, Kind::kRelation) << v.message;
  EXPECT_NE(v.message.find("names a block whose written score is"), std::string::npos) << v.message;
}

// Without scores to judge, a wrong list is still named.
TEST(ScoreRelations, AWrongListIsNamed) {
  Case c = scoring();
  c.want_lse = false;
  OracleTarget target([](attn_problem& p, attn_tensors&) { p.select_last = 0; }, kScoring);
  const Verdict v = judge(c, *find_property("reference"), target, documented());
  EXPECT_EQ(v.outcome, Outcome::kFail);
  EXPECT_NE(v.message.find("which is always chosen"), std::string::npos) << v.message;
  EXPECT_NE(v.message.find("rows are wrong"), std::string::npos) << v.message;
  ASSERT_TRUE(v.where);
  EXPECT_TRUE(std::isnan(v.where->expected)) << "no single number is due";
}

}  // namespace
}  // namespace attnfuzz
