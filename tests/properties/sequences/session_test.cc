// Tests the model of a cache, files of sessions, and their reduction. No kernel runs here.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>
#include <map>
#include <set>

#include "properties/judge/judge.h"
#include "properties/sequences/reduce/chain.h"
#include "properties/sequences/draw/choices.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/run/gather.h"
#include "properties/sequences/session/model.h"
#include "properties/sequences/draw/mutate.h"
#include "properties/sequences/reduce/reduce.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/story.h"

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
  model.take(step);
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
    const FoundSession found = {{"cache"}, "wrong", "a message", "cpu", "asan"};
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
            "before, sequence 0: step 0: s0 is not there");
  EXPECT_EQ(refusal(R"({"attnfuzz_calls": 1, "before": [{"stepz": []}]})"),
            "before, sequence 0 has the unknown field 'stepz'");
  EXPECT_NE(refusal("{"), "");
}

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

// A library that remembers the longest length of a sequence by its first page, in all sessions, and appends behind
// it.
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
