// The model of a cache, files of sessions, and their reduction; no kernel runs here.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "properties/judge/judge.h"
#include "properties/sequences/codec.h"
#include "properties/sequences/draw.h"
#include "properties/sequences/model.h"
#include "properties/sequences/reduce.h"
#include "properties/sequences/relations.h"
#include "properties/sequences/story.h"

namespace attnfuzz::sequences {
namespace {

constexpr uint64_t kFeatures = ATTN_FEATURE_INDEX32 | ATTN_FEATURE_PAGED;

Setup small() {
  Setup s;
  s.page_size = 4, s.pages = 6, s.capacity = 12;
  return s;
}

void take(Model& model, const Step& step) {
  ASSERT_FALSE(model.objection(step)) << *model.objection(step);
  model.copy(model.make_room(step));
  model.finish(step);
}

TEST(Model, copies_a_shared_page_before_it_is_written) {
  Model model(small());
  take(model, {Verb::kNew, {0}});
  take(model, {Verb::kAppend, {0}, 6, 100});
  take(model, {Verb::kFork, {0, 1}});
  EXPECT_EQ(model.references(1), 2);
  const Step append = {Verb::kAppend, {1}, 1, 200};
  const std::vector<CopiedPage> pairs = model.make_room(append);
  EXPECT_EQ(pairs, (std::vector<CopiedPage>{{1, 2}}));
  model.copy(pairs);
  model.finish(append);
  EXPECT_EQ(model.token_at(1, 2), Model::kNoToken);  // s0's page has no new token
  EXPECT_EQ(model.token_at(2, 1), 105);
  EXPECT_EQ(model.token_at(2, 2), 200);
  EXPECT_EQ(model.references(0), 2);
  EXPECT_EQ(model.references(1), 1);
}

TEST(Model, lets_the_last_owner_of_a_page_write_into_it) {
  Model model(small());
  take(model, {Verb::kNew, {0}});
  take(model, {Verb::kAppend, {0}, 2, 100});
  take(model, {Verb::kFork, {0, 1}});
  // Both go on in one step: one of them gets a copy.
  EXPECT_EQ(model.make_room({Verb::kAppend, {0, 1}, 1, 200}).size(), 1u);
}

TEST(Model, drops_what_is_beyond_the_capacity_and_poisons_what_is_cut_off) {
  Model model(small());
  take(model, {Verb::kNew, {0}});
  take(model, {Verb::kAppend, {0}, 15, 100});
  EXPECT_EQ(model.length(0), 12);
  take(model, {Verb::kTruncate, {0}, 5});
  EXPECT_EQ(model.pages(0).size(), 2u);
  EXPECT_EQ(model.token_at(1, 0), 104);
  EXPECT_EQ(model.token_at(1, 1), Model::kNoToken);
  EXPECT_EQ(model.token_at(2, 0), Model::kNoToken);
  take(model, {Verb::kFree, {0}});
  EXPECT_EQ(model.free_pages(), 6);
}

TEST(Model, refuses_what_cannot_be_with_a_reason) {
  const Model model(small());
  EXPECT_EQ(model.objection({Verb::kFree, {0}}), "s0 is not there");
  EXPECT_EQ(model.objection({Verb::kAttend, {1, 1}, 1}), "s1 is named twice");
  EXPECT_TRUE(model.objection({Verb::kAttend, {9}, 1}));
}

// After any session a page has as many references as there are rows that name it, and NaN where it has none.
TEST(Model, counts_references) {
  EXPECT_TRUE(rc::check([](uint64_t seed) {
    const Session session = draw_session(seed, kFeatures);
    RC_ASSERT(!objection(session));
    Model model(session.setup);
    for (size_t n = 0; n < session.steps.size(); ++n) {
      const Step step = repeated(session.steps, n);
      model.copy(model.make_room(step));
      model.finish(step);
      std::vector<int64_t> references(static_cast<size_t>(session.setup.pages));
      for (int64_t entry = 0; entry < kMostEntries; ++entry) {
        for (const int64_t page : model.pages(entry)) ++references[static_cast<size_t>(page)];
        for (int64_t key = 0; key < model.length(entry); ++key) {
          const int64_t page = model.pages(entry)[static_cast<size_t>(key / session.setup.page_size)];
          RC_ASSERT(model.token_at(page, key % session.setup.page_size) ==
                    model.tokens(entry)[static_cast<size_t>(key)]);
        }
      }
      for (int64_t page = 0; page < session.setup.pages; ++page) {
        RC_ASSERT(model.references(page) == references[static_cast<size_t>(page)]);
        if (model.references(page) == 0) RC_ASSERT(model.token_at(page, 0) == Model::kNoToken);
      }
    }
  }));
}

TEST(SessionFile, reads_what_it_writes) {
  EXPECT_TRUE(rc::check([](uint64_t seed) {
    const Session session = draw_session(seed, kFeatures);
    const FoundSession found = {{"cache"}, "wrong", "a message"};
    const std::string text = encode(session, found);
    const auto read = decode_session(text);
    RC_ASSERT(std::holds_alternative<SessionFile>(read));
    RC_ASSERT(std::get<SessionFile>(read).session == session);
    RC_ASSERT(encode(std::get<SessionFile>(read).session, std::get<SessionFile>(read).found) == text);
    RC_ASSERT(story(session).size() == session.steps.size());
  }));
}

std::string refusal(const std::string& text) {
  const auto read = decode_session(text);
  const auto* error = std::get_if<DecodeError>(&read);
  return error == nullptr ? "" : error->message;
}

TEST(SessionFile, refuses_by_name) {
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "stepz": []})"), "the file has the unknown field 'stepz'");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "setup": {"rings": 1}})"), "setup has the unknown field 'rings'");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 2})"),
            "'attnfuzz_calls' is version 2; this attnfuzz reads version 1");
  EXPECT_NE(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "merge"}]})"), "");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "free", "sequences": [0]}]})"),
            "step 0: s0 is not there");
  EXPECT_NE(refusal(R"({"attnfuzz_calls": 1, "setup": {"pages": 1e3}})"), "");
  EXPECT_NE(refusal(R"({"attnfuzz_calls": 1, "setup": {"pages": 1000000000}})"), "");
  EXPECT_NE(refusal("{"), "");
}

// A kernel that is wrong where a sequence is appended to twice and then moved.
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
    EXPECT_EQ(small.session.steps.size(), 4u) << encode(small.session);
    EXPECT_EQ(small.session.relation, Relation::kNone);
    EXPECT_EQ(small.session.setup.page_size, 1);
    EXPECT_FALSE(objection(small.session));
  }
  EXPECT_GT(found, 3);
}

// The second session of a relation attends over the same tokens.
TEST(Relations, keep_the_tokens_of_attends) {
  const auto attended = [](const Session& session) {
    std::vector<std::vector<int64_t>> tokens;
    Model model(session.setup);
    for (size_t n = 0; n < session.steps.size(); ++n) {
      const Step step = repeated(session.steps, n);
      model.copy(model.make_room(step));
      model.finish(step);
      if (step.verb != Verb::kAttend) continue;
      for (const int64_t entry : step.entries) tokens.push_back(model.tokens(entry));
    }
    return tokens;
  };
  std::set<Relation> seen;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Session session = draw_session(seed, kFeatures);
    const auto other = related(session);
    if (!other) continue;
    seen.insert(session.relation);
    EXPECT_EQ(attended(session), attended(*other)) << encode(session);
  }
  EXPECT_EQ(seen.size(), 4u);
}

}  // namespace
}  // namespace attnfuzz::sequences
