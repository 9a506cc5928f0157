// Tests the reduction of sessions, and of chains of sessions. No kernel runs here.
#include "properties/sequences/reduce/reduce.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "properties/judge/judge.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/reduce/chain.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/session/model.h"
#include "tests/properties/sequences/small_session.h"

namespace attnfuzz::sequences {
namespace {

// A kernel that is wrong if a sequence is appended to twice and then moved.
SessionResult wrong_after_two_appends(const Session& session) {
  SessionResult result;
  std::vector<int> appends(kMostEntries);
  for (size_t n = 0; n < session.steps.size(); ++n) {
    const Step step = repeated(session.steps, n);
    for (const int64_t entry : step.entries) {
      int& count = appends[static_cast<size_t>(entry)];
      if (step.verb == Verb::kAppend) ++count;
      if (step.verb != Verb::kMove || count < 2) continue;
      fail(result.verdict, Kind::kWrong, "wrong");
      result.call = "copy_pages";
      result.step = n;
      return result;
    }
  }
  return result;
}

TEST(ReduceSession, ends_in_the_same_steps) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Session session = draw_session(seed, kFeatures);
    const SessionResult failed = wrong_after_two_appends(session);
    if (failed.verdict.outcome != Outcome::kFail) continue;
    ++found;
    const ReducedSession small = reduce_session(session, failed, wrong_after_two_appends, 30);
    EXPECT_EQ(small.session.steps.size(), 4u) << encode({small.session, {}});
    EXPECT_EQ(small.session.relation, Relation::kNone);
    EXPECT_EQ(small.session.setup.page_size, 1);
    EXPECT_FALSE(objection(small.session));
  }
  EXPECT_GT(found, 3);
}

// Fails at an attend, or at its replay, over two sequences with tokens.
SessionResult wrong_over_two_sequences(const Session& session) {
  SessionResult result;
  Model model(session.setup);
  for (size_t n = 0; n < session.steps.size(); ++n) {
    const Step step = repeated(session.steps, n);
    const auto filled = [&](int64_t entry) { return model.length(entry) > 0; };
    if (step.verb == Verb::kAttend && std::ranges::count_if(step.entries, filled) > 1) {
      fail(result.verdict, Kind::kWrong, "wrong");
      result.call = "forward";
      result.step = n;
      return result;
    }
    model.take(step);
  }
  return result;
}

TEST(ReduceSession, appends_to_both_sequences_at_once_and_replays_nothing) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Session session = draw_session(seed, kFeatures);
    const SessionResult failed = wrong_over_two_sequences(session);
    if (failed.verdict.outcome != Outcome::kFail) continue;
    ++found;
    const Session small = reduce_session(session, failed, wrong_over_two_sequences, 30).session;
    EXPECT_EQ(small.steps.size(), 4u) << encode({small, {}});  // new, new or fork, append, attend
    EXPECT_EQ(std::ranges::count(small.steps, Verb::kReplay, &Step::verb), 0) << encode({small, {}});
  }
  EXPECT_GT(found, 3);
}

// A library that remembers a move, and then does not copy pages in a later session.
SessionResult wrong_after_a_move(const Chain& chain) {
  const auto moves = [](const Session& session) {
    return std::ranges::any_of(session.steps, [](const Step& s) { return s.verb == Verb::kMove; });
  };
  SessionResult result;
  if (!std::ranges::any_of(chain.before, moves) || !moves(chain.last)) return result;
  fail(result.verdict, Kind::kWrong, "wrong");
  result.call = "copy_pages";
  return result;
}

TEST(ReduceChain, keeps_the_one_session_before_that_is_needed) {
  Chain chain;
  uint64_t seed = 1;
  while (wrong_after_a_move(chain).verdict.outcome != Outcome::kFail) {
    chain.before.push_back(chain.last);
    chain.last = draw_session(seed++, kFeatures);
  }
  const ReducedChain small = reduce_chain(chain, wrong_after_a_move(chain), wrong_after_a_move, 30);
  EXPECT_TRUE(small.again);
  ASSERT_EQ(small.chain.before.size(), 1u);
  EXPECT_EQ(small.steps(), 6u);  // new, append and move in each of two sessions
  EXPECT_EQ(small.pages(), 2);
}

TEST(ReduceChain, needs_no_other_session_if_the_last_one_fails_by_itself) {
  const auto check = [](const Chain& c) { return wrong_after_two_appends(c.last); };
  Chain chain;
  for (uint64_t seed = 1; check(chain).verdict.outcome != Outcome::kFail; ++seed) {
    chain.before.push_back(chain.last);
    chain.last = draw_session(seed, kFeatures);
  }
  const ReducedChain small = reduce_chain(chain, check(chain), check, 30);
  EXPECT_TRUE(small.again);
  EXPECT_TRUE(small.chain.before.empty());
  EXPECT_EQ(small.steps(), 4u);
}

// A library that remembers the longest length of a sequence by its first page, in all sessions, and appends
// behind it.
SessionResult wrong_below_the_longest(const Chain& chain) {
  std::map<int64_t, int64_t> longest;
  SessionResult result;
  const auto runs = [&](const Session& session) {
    Model model(session.setup);
    for (size_t n = 0; n < session.steps.size(); ++n) {
      const Step step = repeated(session.steps, n);
      const int64_t before = step.verb == Verb::kAppend ? model.length(step.entries[0]) : 0;
      model.take(step);
      if (step.verb != Verb::kAppend || model.length(step.entries[0]) == 0) continue;
      int64_t& known = longest[model.row(step.entries[0])[0]];
      if (before < known && before > 0) return n;
      known = std::max(known, model.length(step.entries[0]));
    }
    return session.steps.size();
  };
  for (const Session& session : chain.before) {
    if (runs(session) < session.steps.size()) return result;
  }
  result.step = runs(chain.last);
  if (result.step == chain.last.steps.size()) return result;
  fail(result.verdict, Kind::kWrong, "wrong");
  result.call = "append";
  return result;
}

// Sessions with a truncate, and those that need others before them, end in the same steps. A fork is kept, for
// it may have a bug of its own.
TEST(ReduceChain, ends_in_a_simple_session_that_fails_in_the_same_way) {
  std::set<std::string> verbs;
  int found = 0, after_others = 0;
  for (uint64_t seed = 1; seed <= 200 && (found < 12 || after_others < 3); ++seed) {
    const Chain chain = {draw_session(seed, kFeatures), {draw_session(seed + 500, kFeatures)}};
    const SessionResult failed = wrong_below_the_longest(chain);
    if (failed.verdict.outcome != Outcome::kFail) continue;
    ++found;
    after_others += wrong_below_the_longest({chain.last, {}}).verdict.outcome != Outcome::kFail;
    const ReducedChain small = reduce_chain(chain, failed, wrong_below_the_longest, 30);
    EXPECT_TRUE(small.chain.before.empty());
    std::string text;
    for (const Step& step : small.chain.last.steps) text += std::string(describe(step)) + "; ";
    verbs.insert(text);
  }
  EXPECT_GE(found, 12);
  EXPECT_GE(after_others, 3);
  EXPECT_EQ(verbs,
            (std::set<std::string>{
                "new s0; append 1 token to s0; fork s0 to s1; append 1 token to s0; append 1 token to s1; ",
                "new s0; append 2 tokens to s0; truncate s0 to 1 token; append 1 token to s0; "}));
}

// Two bugs of an append: the second append to a fork fails, and so does one after a truncate to a length above
// 0.
struct TwoBugs {
  bool of_cut_forks = true;  // the first bug needs a truncate as well
  Kind second_kind = Kind::kWrong;
  int64_t second_page = 1;  // the least page size of the second bug
  int times = 1000;         // how often the second bug shows

  SessionResult operator()(const Chain& chain) {
    SessionResult result;
    Model model(chain.last.setup);
    int appends = 0;  // to the fork
    bool forked = false, cut = false, shorter = false;
    for (size_t n = 0; n < chain.last.steps.size(); ++n) {
      const Step step = repeated(chain.last.steps, n);
      const bool append = step.verb == Verb::kAppend;
      appends += append && forked && step.entries[0] == 1;
      const bool first = append && appends == 2 && (cut || !of_cut_forks);
      if (first || (append && shorter && chain.last.setup.page_size >= second_page && times-- > 0)) {
        fail(result.verdict, first ? Kind::kWrong : second_kind, "it fails");
        result.call = "append", result.step = n;
        return result;
      }
      model.take(step);
      forked |= step.verb == Verb::kFork && model.length(1) > 0;
      cut |= step.verb == Verb::kTruncate;
      shorter |= step.verb == Verb::kTruncate && model.length(step.entries[0]) > 0;
    }
    return result;
  }
};

// The chain shows the first bug, and the simple session {new, append 2, truncate to 1, append 1} the second
// one.
bool keeps_its_fork(TwoBugs bugs) {
  Chain chain;
  chain.last.setup = small();
  chain.last.steps = {{Verb::kNew, {0}},
                      {Verb::kAppend, {0}, 1, 100'000},
                      {Verb::kFork, {0, 1}},
                      {Verb::kAppend, {1}, 1, 200'000}};
  if (bugs.of_cut_forks) chain.last.steps.push_back({Verb::kTruncate, {1}, 0});
  chain.last.steps.push_back({Verb::kAppend, {1}, 1, 300'000});
  const SessionResult failed = bugs(chain);
  const ReducedChain small = reduce_chain(chain, failed, std::ref(bugs), 30);
  EXPECT_TRUE(small.again);
  return std::ranges::count(small.chain.last.steps, Verb::kFork, &Step::verb) > 0;
}

TEST(ReduceChain, does_not_end_in_another_bug) {
  EXPECT_TRUE(keeps_its_fork({.of_cut_forks = false})) << "no truncate is in the chain";
  EXPECT_TRUE(keeps_its_fork({.second_kind = Kind::kRedzone}));
  EXPECT_TRUE(keeps_its_fork({.second_page = 2})) << "the chain's pages have one key";
  EXPECT_TRUE(keeps_its_fork({.times = 1})) << "it fails once";
  EXPECT_FALSE(keeps_its_fork({})) << "nothing tells the two apart";
}

TEST(ReduceChain, says_that_a_failure_did_not_come_again) {
  SessionResult failed;
  fail(failed.verdict, Kind::kWrong, "wrong");
  const Chain chain = {draw_session(1, kFeatures), {draw_session(2, kFeatures)}};
  const ReducedChain small = reduce_chain(chain, failed, [](const Chain&) { return SessionResult{}; }, 30);
  EXPECT_FALSE(small.again);
  EXPECT_EQ(small.chain, chain);
}

// If the second session of a relation fails, the chain becomes the first session and then the second.
TEST(ReduceChain, makes_a_session_of_the_second_one_of_a_relation) {
  Session session = draw_session(1, kFeatures);
  for (uint64_t seed = 2; session.relation == Relation::kNone || !related(session); ++seed)
    session = draw_session(seed, kFeatures);
  SessionResult failed;
  fail(failed.verdict, Kind::kWrong, "wrong");
  failed.second = true;
  const auto behind_another = [&](const Chain& c) { return c.before.empty() ? SessionResult{} : failed; };
  const ReducedChain small = reduce_chain({session, {}}, failed, behind_another, 30);
  EXPECT_TRUE(small.again);
  EXPECT_EQ(small.chain.before.size(), 1u);
  EXPECT_EQ(small.chain.last.relation, Relation::kNone);
}

}  // namespace
}  // namespace attnfuzz::sequences
