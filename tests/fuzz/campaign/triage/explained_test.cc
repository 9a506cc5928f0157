// Tests which failing cases a finding explains, and which steps a reduction may not take. The
// kernel is a rule: a case fails if the rule says so.
#include "fuzz/campaign/triage/explained.h"

#include <gtest/gtest.h>

#include "properties/case/words.h"
#include "properties/reduce/canonical_cases.h"

namespace attnfuzz {
namespace {

Need at_least(const char* part, int64_t value) {
  return {.part = part, .relation = Relation::kAtLeast, .value = value};
}
Need exactly(const char* part, int64_t value) {
  return {.part = part, .relation = Relation::kExactly, .value = value};
}

using Rule = bool (*)(const Problem& p);

Verdict judge_by(Rule rule, const Case& c) {
  Verdict verdict;
  verdict.property = "reference";
  verdict.plan.tile_q = verdict.plan.tile_k = 64;
  verdict.plan.num_splits = 1;
  if (!rule(c.problem)) return verdict;
  verdict.outcome = Outcome::kFail;
  verdict.kind = Kind::kWrong;
  return verdict;
}

JudgeIt by(Rule rule) {
  return [rule](const Case& c) { return judge_by(rule, c); };
}

Explains answer(const NeededParts& need, const Case& c, Rule rule) {
  return explains(need, c, judge_by(rule, c), by(rule)).answer;
}

NeededParts with_tiles(NeededParts need) {
  need.tile_q = need.tile_k = 64;
  return need;
}

bool softcap(const Problem& p) { return p.softcap != 0; }
bool long_rows(const Problem& p) { return p.seq_k >= 65; }
bool grouped(const Problem& p) { return p.heads_kv >= 2 && p.heads_q > p.heads_kv; }
bool softcap_or_grouped(const Problem& p) { return softcap(p) || grouped(p); }
bool softcap_or_long(const Problem& p) { return softcap(p) || long_rows(p); }

NeededParts need_of_softcap() {
  Case c;
  c.problem.softcap = 1;
  return with_tiles(needed_parts(c, {{.part = "softcap"}, at_least("seq_q", 1)}));
}

TEST(Explains, ACaseThatHasAllNeedsAndPassesWithoutThem) {
  Case c;
  c.problem.softcap = 5;
  c.problem.seq_k = 100;
  EXPECT_EQ(answer(need_of_softcap(), c, softcap), Explains::kYes);
}

TEST(Explains, NothingThatLacksAFeature) {
  Case c;
  c.problem.seq_k = 100;
  EXPECT_EQ(answer(need_of_softcap(), c, softcap_or_long), Explains::kNo);
}

TEST(Explains, NoCaseThatAlsoFailsWithoutTheNeeds) {
  Case c;
  c.problem.softcap = 5;
  c.problem.seq_k = 100;
  const Explained e = explains(need_of_softcap(), c, judge_by(softcap_or_long, c), by(softcap_or_long));
  EXPECT_EQ(e.answer, Explains::kNo);
  EXPECT_EQ(e.c.problem.softcap, 0) << "the stripped case shows only the other bug";
  EXPECT_EQ(e.c.problem.seq_k, 100);
}

TEST(Need, SizesAreReadFromItsWords) {
  Case c;
  c.problem.heads_q = 3;
  c.problem.seq_q = 65;
  c.problem.seq_k = 0;
  const NeededParts need = needed_parts(
      c, {{.part = "heads_q / heads_kv", .relation = Relation::kRemainder, .value = 3, .period = 2, .least = 3},
          {.part = "seq_q", .relation = Relation::kRemainder, .value = 1, .period = 64},
          exactly("seq_k", 0)});
  ASSERT_EQ(need.sizes.size(), 3u);
  EXPECT_EQ(need.sizes[0].period, 2);
  EXPECT_EQ(need.sizes[0].least, 3);
  EXPECT_EQ(need.sizes[1].period, 64);
  EXPECT_EQ(need.sizes[2].period, NeededParts::Size::kExactly);
}

// The finding needs an odd number of heads, 3 or more. A case with one head is not explained.
TEST(Explains, NoCaseWithFewerHeadsThanNeeded) {
  const auto odd = [](const Problem& p) { return p.heads_q / p.heads_kv % 2 == 1 && p.heads_q >= 3; };
  const auto odd_or_softcap = [](const Problem& p) {
    return (p.heads_q / p.heads_kv % 2 == 1 && p.heads_q >= 3) || (p.softcap != 0 && p.heads_q == 1);
  };
  Case three;
  three.problem.heads_q = 3;
  const NeededParts need = with_tiles(needed_parts(
      three,
      {{.part = "heads_q / heads_kv", .relation = Relation::kRemainder, .value = 3, .period = 2, .least = 3}}));
  Case five;
  five.problem.heads_q = 5;
  EXPECT_EQ(answer(need, five, odd), Explains::kYes);
  Case one;
  one.problem.softcap = 1;
  EXPECT_NE(answer(need, one, odd_or_softcap), Explains::kYes);
}

// A finding with one query and the need "seq_k = 0" also explains cases with more queries than keys.
TEST(Explains, AnotherLengthWithTheSameOrderOfLengths) {
  const auto rule = [](const Problem& p) { return p.causal && p.seq_q > p.seq_k; };
  Case minimal;
  minimal.problem.causal = true;
  minimal.problem.seq_k = 0;
  const NeededParts need = with_tiles(needed_parts(minimal, {exactly("seq_k", 0), {.part = "causal"}}));
  Case c = minimal;
  c.problem.seq_q = 100;
  c.problem.seq_k = 20;
  EXPECT_EQ(answer(need, c, rule), Explains::kYes);
  // A case of another bug, with more keys than queries.
  c.problem.seq_k = 200;
  EXPECT_NE(answer(need, c, [](const Problem& p) { return p.causal; }), Explains::kYes);
  // A need of only a length does not tell bugs apart.
  minimal.problem.causal = false;
  const NeededParts length = with_tiles(needed_parts(minimal, {exactly("seq_k", 0)}));
  EXPECT_FALSE(tells_apart(length));
  c.problem.seq_k = 20;
  EXPECT_EQ(answer(length, c, [](const Problem&) { return true; }), Explains::kPerhaps);
}

// A need "batch = 1" once came from bugs of strides. No reduction could take such a size away.
TEST(Need, ASizeOfOneIsNoNeed) {
  EXPECT_FALSE(
      tells_apart(needed_parts(Case{}, {exactly("batch", 1), exactly("heads_kv", 1), at_least("seq_q", 1)})));
  EXPECT_TRUE(tells_apart(need_of_softcap()));
}

Reduction reduced(const Case& c, Rule rule, bool stays) {
  ReduceOptions options;
  if (stays) options.may_take = stays_with;
  return reduce(
      c, judge_by(rule, c), "wrong", by(rule), [](const Verdict& v) { return to_string(v.kind); }, options);
}

Case grouped_case() {
  Case c;
  c.problem.heads_q = 6;
  c.problem.heads_kv = 2;
  c.problem.seq_q = c.problem.seq_k = 20;
  c.problem.bias.emplace();
  return c;
}

TEST(StaysWith, KeepsToTheBugThatTheReductionBeganWith) {
  const Case simplest =
      reduced(grouped_case(), [](const Problem& p) { return grouped(p) || p.seq_q >= 65; }, false).minimal;
  EXPECT_EQ(simplest.problem.heads_q, 1)
      << "without stays_with the reduction ends in the other bug: " << describe(simplest);
  const Reduction r =
      reduced(grouped_case(), [](const Problem& p) { return grouped(p) || p.seq_q >= 65; }, true);
  EXPECT_EQ(r.minimal.problem.heads_q, 4) << describe(r.minimal);
  EXPECT_EQ(r.minimal.problem.heads_kv, 2);
  EXPECT_EQ(r.minimal.problem.seq_q + r.minimal.problem.seq_k, 0) << describe(r.minimal);
}

TEST(StaysWith, EndsInTheSimplestCaseOfItsBug) {
  const Reduction r = reduced(grouped_case(), softcap_or_grouped, true);
  EXPECT_EQ(describe(r.minimal), describe(reduced(grouped_case(), grouped, false).minimal));
}

TEST(StaysWith, AllowsJumpsOnlyAmongTheSameFeatures) {
  const Verdict verdict = judge_by(softcap, Case{});
  Case best, to;
  best.problem.softcap = 2;
  best.problem.seq_q = 2;
  EXPECT_FALSE(stays_with(best, verdict, to, Step::kJump));
  EXPECT_TRUE(stays_with(best, verdict, to, Step::kPass)) << "a pass may take a feature away";
  to.problem.softcap = 1;
  to.problem.seq_k = 2;
  EXPECT_TRUE(stays_with(best, verdict, to, Step::kJump));
  to.problem.causal = true;
  EXPECT_FALSE(stays_with(best, verdict, to, Step::kJump));
  to.problem.causal = false;
  to.problem.seq_k = 65;
  EXPECT_FALSE(stays_with(best, verdict, to, Step::kJump));
  EXPECT_FALSE(stays_with(best, verdict, to, Step::kPass)) << "beyond a tile";
}

TEST(StaysWith, MayMoveAnOddLayoutAmongQKAndV) {
  const Verdict verdict = judge_by(softcap, Case{});
  Case q, v, lse;
  q.layout[static_cast<size_t>(TensorId::kQ)].row_gap = 8;
  v.layout[static_cast<size_t>(TensorId::kV)].spread = 2;
  lse.layout[static_cast<size_t>(TensorId::kLse)].spread = 2;
  EXPECT_TRUE(stays_with(q, verdict, v, Step::kJump));
  EXPECT_FALSE(stays_with(q, verdict, lse, Step::kJump));
}

}  // namespace
}  // namespace attnfuzz
