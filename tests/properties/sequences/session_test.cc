// Tests the model of a cache, draws and files of sessions. No kernel runs here.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "properties/sequences/draw/choices.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/draw/mutate.h"
#include "properties/sequences/reduce/chain.h"
#include "properties/sequences/run/gather.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/session/model.h"
#include "properties/sequences/session/story.h"
#include "tests/properties/sequences/small_session.h"

namespace attnfuzz::sequences {
namespace {

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
  // Both sequences append in one step, so one of them gets a copy of the page.
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
  EXPECT_EQ(model.objection({Verb::kAttend, {9}, 1}), "a sequence is not between 0 and 7");
}

// Six pages are enough: a page for a copy is needed only if a copy is made.
TEST(Model, needs_no_page_for_a_copy_that_is_not_made) {
  Model model(small());
  for (const int64_t entry : {0, 1}) {
    take(model, {Verb::kNew, {entry}});
    take(model, {Verb::kAppend, {entry}, 12, 100});
  }
  EXPECT_EQ(model.free_pages(), 0);
  take(model, {Verb::kTruncate, {0}, 11});
  take(model, {Verb::kAppend, {0}, 1, 200});
  take(model, {Verb::kTruncate, {0}, 3});
  take(model, {Verb::kFree, {1}});
  take(model, {Verb::kFork, {0, 1}});
  take(model, {Verb::kFork, {0, 2}});
  EXPECT_EQ(model.make_room({Verb::kAppend, {0, 1, 2}, 1, 300}).size(), 2u);
}

TEST(Model, appends_packed_rows) {
  Model model(small());
  for (const int64_t entry : {0, 1, 2}) take(model, {Verb::kNew, {entry}});
  take(model, {.verb = Verb::kAppend, .entries = {0, 1, 2}, .token = 100, .counts = {3, 0, 5}});
  EXPECT_EQ(model.length(0), 3);
  EXPECT_EQ(model.length(1), 0);
  EXPECT_EQ(model.tokens(2).back(), 100 + 2 * kTokensOfEntry + 4);
  const Step attend = {.verb = Verb::kAttend, .entries = {2, 1, 0}, .counts = {1, 2, 3}, .split = 2};
  EXPECT_EQ(first_pages(small(), model, attend), (std::vector<int64_t>{1, 0, 0}));
  const Rows rows(attend);
  EXPECT_EQ(rows.borders, (std::vector<int64_t>{0, 1, 3, 6}));
  EXPECT_EQ(rows.at(2, 2, 1, 0), 6 + 3);
}

// The two calls of a split attend see each key once.
TEST(Gathered, splits_the_keys) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Session session = draw_session(seed, kFeatures | ATTN_FEATURE_MERGE | ATTN_FEATURE_RAGGED);
    Model model(session.setup);
    for (size_t n = 0; n < session.steps.size(); ++n) {
      const Step step = repeated(session.steps, n);
      if (step.split > 0) {
        const auto lengths = [&](Part part) {
          return *Gathered(session.setup, model, step, part).problem.key_lengths;
        };
        const auto all = lengths(Part::kAll), first = lengths(Part::kFirst), others = lengths(Part::kOthers);
        for (size_t e = 0; e < all.size(); ++e) {
          EXPECT_EQ(first[e] + others[e], all[e]);
          EXPECT_EQ(first[e] % session.setup.page_size, 0);
          EXPECT_GE(others[e], std::min(step.rows(e), all[e]));  // each query sees all of the first keys
        }
      }
      model.take(step);
    }
  }
}

TEST(MutateSession, gives_legal_sessions_that_a_seed_decides) {
  const uint64_t features = kFeatures | ATTN_FEATURE_MERGE | ATTN_FEATURE_RAGGED;
  Session session;
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SeededRng one(seed), two(seed);
    const Session next = mutate_session(session, one, features);
    EXPECT_EQ(next, mutate_session(session, two, features));
    EXPECT_FALSE(objection(next)) << *objection(next);
    EXPECT_LE(next.steps.size(), std::max<size_t>(48, session.steps.size()));
    seen.insert(encode({next, {}}));
    session = next;
  }
  EXPECT_GT(seen.size(), 100u);
}

TEST(BytesRng, draws_a_whole_session_of_few_bytes) {
  const auto drawn = [](std::string_view bytes) {
    BytesRng choices(bytes);
    return draw_session(choices, kFeatures);
  };
  EXPECT_EQ(drawn("abcd"), drawn("abcd"));
  EXPECT_NE(drawn("abcd"), drawn("abce"));
  for (const char* bytes : {"", "a", "abcdefghi"}) EXPECT_GT(drawn(bytes).steps.size(), 3u);
}

// After any session a page has one reference for each row that names it. Without references it holds NaN.
TEST(Model, counts_references) {
  EXPECT_TRUE(rc::check([](uint64_t seed) {
    const Session session = draw_session(seed, kFeatures);
    RC_ASSERT(!objection(session));
    Model model(session.setup);
    for (size_t n = 0; n < session.steps.size(); ++n) {
      const Step step = repeated(session.steps, n);
      model.take(step);
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
    const FoundSession found = {{"cache"}, "wrong", "a message", "cpu", "asan", "forward"};
    Chain chain = {session, {}};
    for (uint64_t n = 0; n < seed % 3; ++n) chain.before.push_back(draw_session(seed + n, kFeatures));
    const std::string text = encode(chain, found);
    const auto read = decode_session(text);
    RC_ASSERT(std::holds_alternative<SessionFile>(read));
    RC_ASSERT(std::get<SessionFile>(read).chain == chain);
    RC_ASSERT(encode(std::get<SessionFile>(read).chain, std::get<SessionFile>(read).found) == text);
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
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "merge"}]})"),
            "step 0: 'do' is no word that is known: merge");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": ""}]})"),
            "step 0: 'do' is no word that is known: ");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "relation": ""})"),
            "the file: 'relation' is no word that is known: ");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "new", "sequences": [0], "count": 5}]})"),
            "step 0: 'new' has no 'count'");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "replay", "kernel": 1}]})"),
            "step 0: 'replay' has no 'kernel'");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "replay"}]})"),
            "step 0: it replays neither an append nor an attend before it");
  EXPECT_EQ(
      refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "attend", "sequences": [0, 1], "counts": [1]}]})"),
      "step 0: there are not as many counts as sequences");
  EXPECT_EQ(
      refusal(
          R"({"attnfuzz_calls": 1, "steps": [{"do": "attend", "sequences": [0], "count": 1, "split": 2}]})"),
      "step 0: split is not between 0 and 1");
  EXPECT_EQ(
      refusal(R"({"attnfuzz_calls": 1, "setup": {"heads_q": 64, "dim_qk": 256, "dim_v": 256, "capacity": 4096,
                      "page_size": 1024}, "steps": [{"do": "attend", "sequences": [0], "count": 1024}]})"),
      "step 0: an attend of more than 2^33 products");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "steps": [{"do": "free", "sequences": [0]}]})"),
            "step 0: s0 is not there");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "setup": {"pages": 1e3}})"),
            "setup: 'pages' is no integer: 1000.0");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "setup": {"pages": 1000000000}})"),
            "pages is not between 1 and 4096");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "before": [{"steps": [{"do": "free", "sequences": [0]}]}]})"),
            "before, sequence of calls 0: step 0: s0 is not there");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "before": [{"stepz": []}]})"),
            "before, sequence of calls 0 has the unknown field 'stepz'");
  EXPECT_NE(refusal("{"), "");
}

TEST(DrawSession, draws_sizes_and_formats_inside_domains) {
  attn_domain domain = {};
  domain.size = sizeof domain;
  domain.dtypes = 1u << ATTN_BF16;
  domain.dim_qk = domain.dim_v = {.least = 0, .most = 0, .multiple = 0, .count = 2, .list = {64, 128}};
  domain.group.list[0] = 4, domain.group.count = 1;
  std::set<int64_t> dims;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Session session = draw_session(seed, kFeatures, std::span(&domain, 1));
    const auto& s = session.setup;
    dims.insert(s.dim_qk);
    EXPECT_FALSE(objection(session));
    EXPECT_EQ(s.dtype, ATTN_BF16);
    EXPECT_TRUE(s.dim_v == 64 || s.dim_v == 128) << s.dim_v;
    EXPECT_EQ(s.heads_q, s.heads_kv * 4);
  }
  EXPECT_EQ(dims, (std::set<int64_t>{64, 128}));
}

}  // namespace
}  // namespace attnfuzz::sequences
