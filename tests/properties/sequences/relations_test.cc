// Tests the relations between two sessions. No kernel runs here.
#include "properties/sequences/run/relations.h"

#include <gtest/gtest.h>

#include <set>

#include "properties/sequences/draw/draw.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/session/model.h"
#include "tests/properties/sequences/small_session.h"

namespace attnfuzz::sequences {
namespace {

// Bits are compared only if both plans promise them.
TEST(Relations, hold_a_kernel_that_is_not_deterministic_to_its_bound) {
  const auto result_of = [](float value, int32_t deterministic) {
    SessionResult result;
    result.attends.emplace_back(Attended{});
    result.attends.back()->outputs[TensorId::kO] = {value};
    attn_plan plan = {};
    plan.deterministic = deterministic;
    result.attends.back()->plans = {plan};
    return result;
  };
  for (const int32_t deterministic : {0, 1}) {
    SessionResult first = result_of(1, deterministic);
    compare_attends(first, result_of(2, deterministic), {.relation = Relation::kFresh}, {1});
    EXPECT_EQ(first.verdict.outcome == Outcome::kFail, deterministic == 1);
    EXPECT_EQ(first.bounded, deterministic == 1 ? 0u : 1u);
  }
}

// If a kernel that keeps state refuses a step of the second session, that session ends.
TEST(Relations, count_the_attends_that_the_second_session_has_not_made) {
  SessionResult first, second;
  first.attends.resize(3);
  second.attends.resize(1);
  compare_attends(first, second, {.relation = Relation::kFresh}, {1, 1, 1});
  EXPECT_EQ(first.left_out.at("relation 'fresh': the second form ended early"), 2u);
}

// The second session of a relation attends over the same tokens. It differs only as the relation says.
TEST(Relations, keep_the_tokens_of_attends) {
  struct Seen {
    std::vector<std::vector<int64_t>> tokens, pages;  // for each entry that attends
    int64_t most_references = 0;
  };
  const auto seen_of = [](const Session& session) {
    Seen seen;
    Model model(session.setup);
    for (size_t n = 0; n < session.steps.size(); ++n) {
      const Step step = repeated(session.steps, n);
      model.take(step);
      for (int64_t page = 0; page < session.setup.pages; ++page)
        seen.most_references = std::max(seen.most_references, model.references(page));
      if (step.verb != Verb::kAttend) continue;
      for (const int64_t entry : step.entries) {
        seen.tokens.push_back(model.tokens(entry));
        seen.pages.push_back(model.pages(entry));
      }
    }
    return seen;
  };
  std::set<Relation> relations;
  int renumbered = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Session session = draw_session(seed, kFeatures);
    const auto other = related(session);
    if (!other) continue;
    relations.insert(session.relation);
    const Seen one = seen_of(session), two = seen_of(other->session);
    if (session.relation == Relation::kDecoded) {
      EXPECT_LT(one.tokens.size(), two.tokens.size()) << encode({session, {}});
    } else {
      EXPECT_EQ(one.tokens, two.tokens) << encode({session, {}});
    }
    if (session.relation == Relation::kRenumbered) renumbered += one.pages != two.pages;
    if (session.relation == Relation::kUnshared) EXPECT_LE(two.most_references, 1);
  }
  EXPECT_EQ(relations.size(), 6u);
  EXPECT_GT(renumbered, 3);
}

// A prefill of four queries equals a prefill of two queries and two decode steps: each head has the same rows
// in order.
TEST(Relations, decode_the_last_queries_of_a_prefill) {
  Session session;
  session.setup = {.heads_q = 2, .heads_kv = 1, .page_size = 4, .pages = 8, .capacity = 8};
  session.steps = {{.verb = Verb::kNew, .entries = {0}},
                   {.verb = Verb::kAppend, .entries = {0}, .count = 6, .token = 100},
                   {.verb = Verb::kAttend, .entries = {0}, .count = 4, .token = 50}};
  session.relation = Relation::kDecoded;
  const auto second = related(session);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->parts, std::vector<size_t>{2});
  const std::vector<Step> due = {{.verb = Verb::kNew, .entries = {0}},
                                 {.verb = Verb::kAppend, .entries = {0}, .count = 6, .token = 100},
                                 {.verb = Verb::kTruncate, .entries = {0}, .count = 4},
                                 {.verb = Verb::kAttend, .entries = {0}, .count = 2, .token = 50},
                                 {.verb = Verb::kAppend, .entries = {0}, .count = 2, .token = 104},
                                 {.verb = Verb::kAttend, .entries = {0}, .count = 2, .token = 52}};
  EXPECT_EQ(second->session.steps, due);

  const auto attended = [](std::vector<float> o) {
    Attended a;
    a.outputs[TensorId::kO] = std::move(o);
    a.plans = {{}};
    a.plans[0].deterministic = 1;
    return a;
  };
  for (const float last : {8.0F, 9.0F}) {
    SessionResult one, two;
    one.attends = {attended({1, 2, 3, 4, 5, 6, 7, 8})};
    two.attends = {attended({1, 2, 5, 6}), attended({3, 4, 7, last})};
    compare_attends(one, two, session, second->parts);
    EXPECT_EQ(one.verdict.outcome == Outcome::kFail, last != 8);
    EXPECT_EQ(one.bounded, 0u);
  }
}

}  // namespace
}  // namespace attnfuzz::sequences
