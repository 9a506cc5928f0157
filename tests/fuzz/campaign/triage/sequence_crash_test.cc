// Tests what the triage makes of failing sequences of calls: they are confirmed, reduced, filed and counted.
#include "fuzz/campaign/triage/sequence_crash.h"

#include <gmock/gmock.h>

#include "fuzz/campaign/store/jobs/journal.h"
#include "fuzz/campaign/triage/crash_in_hand.h"
#include "fuzz/campaign/triage/recheck.h"
#include "fuzz/campaign/triage/sequences_explained.h"
#include "fuzz/report/report.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/codec.h"
#include "tests/fuzz/campaign/append_target.h"
#include "tests/fuzz/campaign/triage/crash_folder.h"

namespace attnfuzz {
namespace {

using sequences::Chain;
using sequences::Verb;
using ::testing::HasSubstr;
using Bug = AppendTarget::Bug;

// One sequence that gets `appends` times `tokens` tokens.
sequences::Session appends(int appends, int64_t tokens) {
  sequences::Session session;
  session.setup.page_size = 4, session.setup.pages = 30, session.setup.capacity = 100;
  session.steps = {{.verb = Verb::kNew, .entries = {0}}};
  for (int n = 0; n < appends; ++n)
    session.steps.push_back(
        {.verb = Verb::kAppend, .entries = {0}, .count = tokens, .token = 4096 * 8 * (n + 1)});
  return session;
}

class FailingSequences : public CrashFolder {
 protected:
  FailingSequences()
      : CrashFolder([this]() -> std::unique_ptr<FakeTarget> {
          ++opened_;
          return std::make_unique<AppendTarget>(bug_);
        }) {
    std::filesystem::create_directories(options_.dir + "/never_again");
    targets_[0].record.backend = "cpu";
    targets_[0].info = AppendTarget(bug_).info();
    options_.reduce_seconds = 20;
  }

  void file(const std::string& calls, const std::string& kind = "wrong", const std::string& site = "",
            ExitReason exit_reason = ExitReason::kNone) {
    Crash crash;
    crash.id = "s" + std::to_string(filed_++);
    crash.target = "fake.cpu.plain";
    crash.property = kOfSequences;
    crash.kind = kind;
    crash.message = "it fails";
    crash.site = site;
    crash.exit_reason = exit_reason;
    crash.t = filed_;
    crash.calls = calls;
    write_crash(options_.dir, crash, "");
  }

  Chain chain_of(const std::string& path) const {
    const auto read = sequences::decode_session(file_text(options_.dir + path));
    EXPECT_TRUE(std::holds_alternative<sequences::SessionFile>(read)) << path;
    return std::get<sequences::SessionFile>(read).chain;
  }
  std::vector<Finding> never_again() const { return read_findings(options_.dir).never_again; }

  Bug bug_ = Bug::kSkipsLast;
  int filed_ = 0, opened_ = 0;
};

TEST_F(FailingSequences, AreReducedAndFiledOnce) {
  AppendTarget target(bug_);
  const sequences::SessionTarget one = {&target, executor()};
  const sequences::SessionTargets kernels(std::span(&one, 1));
  for (uint64_t seed = 0; filed_ < 3; ++seed) {
    const sequences::Session drawn = sequences::draw_session(seed, common_features(kernels));
    if (check_session(drawn, kernels).verdict.outcome == Outcome::kFail) file(sequences::encode({drawn, {}}));
  }
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  const Finding& f = found[0];
  EXPECT_EQ(f.count, 3u);
  EXPECT_EQ(f.repeats, Repeats::kAlways);
  EXPECT_EQ(f.failed, 3);
  EXPECT_TRUE(f.reduced);
  EXPECT_TRUE(is_of_sequences(f));
  EXPECT_EQ(f.key, "fake|sequences|wrong|append|append|new");
  EXPECT_THAT(f.name, HasSubstr("fake-calls-wrong-"));
  EXPECT_THAT(f.minimal, HasSubstr("2 steps on "));
  EXPECT_TRUE(read_crashes(options_.dir).empty());
  const Chain small = chain_of("/findings/" + f.name + ".calls.json");
  EXPECT_EQ(small.last.steps.size(), 2u);
  EXPECT_EQ(check_chain(small, kernels).verdict.outcome, Outcome::kFail);
  const std::string issue = file_text(options_.dir + "/findings/" + f.name + ".md");
  EXPECT_THAT(issue, HasSubstr("attnfuzz sequence --replay " + f.name + ".calls.json fake"));
  EXPECT_THAT(issue, HasSubstr("append 2 tokens to s0"));
  EXPECT_THAT(issue, HasSubstr("a case may show the same bug"));
}

TEST_F(FailingSequences, ThatFailOnlyAfterOthersKeepThem) {
  bug_ = Bug::kAfterMany;
  Chain chain = {appends(1, 1), {}};
  for (int n = 0; n < 6; ++n) chain.before.push_back(appends(10, 1));
  file(sequences::encode(chain));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].repeats, Repeats::kAfterOthers);
  EXPECT_THAT(found[0].key, HasSubstr("|after others|"));
  const Chain small = chain_of("/findings/" + found[0].name + ".calls.json");
  ASSERT_FALSE(small.before.empty());
  EXPECT_LE(small.before.size(), 3u);
  EXPECT_THAT(file_text(options_.dir + "/findings/" + found[0].name + ".md"),
              HasSubstr("Before, in the same process"));
}

// It fails once after the others and never again. That is enough, unless the crash was a kill: anyone may kill
// a process once. Either way, the file has the others.
TEST_F(FailingSequences, ThatFailOnceAfterOthersKeepThem) {
  bug_ = Bug::kFourth;
  const std::string calls = sequences::encode({appends(2, 1), {appends(1, 1)}});
  file(calls);
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].repeats, Repeats::kAfterOthers);
  EXPECT_EQ(chain_of("/findings/" + found[0].name + ".calls.json").before.size(), 1u);
  EXPECT_FALSE(found[0].reduced) << "no candidate fails";
  EXPECT_EQ(found[0].failed, 0) << "in runs by itself";
  EXPECT_EQ(found[0].runs, 3);
  EXPECT_THAT(file_text(options_.dir + "/findings/" + found[0].name + ".md"),
              HasSubstr("It is not fully reduced"));
  write_findings(options_.dir, {});
  file(calls, "crash", "", ExitReason::kKilled);
  EXPECT_TRUE(findings().empty());
  ASSERT_EQ(never_again().size(), 1u);
  const Finding f = never_again()[0];
  EXPECT_EQ(f.kind, "crash");
  EXPECT_EQ(f.message, "it fails") << "of the crash, not of the run that does not count";
  EXPECT_EQ(f.runs, 10);
  EXPECT_EQ(file_text(options_.dir + "/never_again/" + f.name + ".calls.json"), calls);
}

// It fails once alone while it is reduced, and then never again alone. So the file has the others.
TEST_F(FailingSequences, ThatFailOnceAloneKeepTheOthers) {
  bug_ = Bug::kFifth;
  file(sequences::encode({appends(2, 1), {appends(1, 1)}}));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].repeats, Repeats::kAfterOthers);
  EXPECT_EQ(chain_of("/findings/" + found[0].name + ".calls.json").before.size(), 1u);
  EXPECT_FALSE(found[0].reduced);
  EXPECT_EQ(found[0].failed, 0);
  EXPECT_EQ(found[0].runs, 3);
}

// It fails in half of its runs. Each candidate of the reduction runs several times, so it is reduced all the
// same.
TEST_F(FailingSequences, ThatFailNowAndThenAreReduced) {
  bug_ = Bug::kEvenly;
  file(sequences::encode({appends(3, 2), {appends(1, 1)}}));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].repeats, Repeats::kSometimes);
  EXPECT_EQ(found[0].failed, 5);
  EXPECT_EQ(found[0].runs, 10);
  EXPECT_TRUE(found[0].reduced);
  EXPECT_EQ(found[0].key, "fake|sequences|wrong|append|append|new");
  EXPECT_EQ(found[0].minimal, "2 steps on 1 page: new s0; append 1 token to s0");
}

// Two sessions with a truncate. With Bug::kTruncated, a session that follows the first fails, and the second
// fails itself.
std::pair<sequences::Session, sequences::Session> truncated_sessions() {
  const sequences::Step begin = {.verb = Verb::kNew, .entries = {0}},
                        two = {.verb = Verb::kAppend, .entries = {0}, .count = 2, .token = 32768},
                        cut = {.verb = Verb::kTruncate, .entries = {0}, .count = 1},
                        one = {.verb = Verb::kAppend, .entries = {0}, .count = 1, .token = 65536};
  sequences::Session first = appends(0, 0), shown = first;
  first.steps = {begin, two, cut, one};
  shown.steps = {begin, two, cut, one, one};
  return {first, shown};
}

// Without the truncates of a finding it passes, so it is that finding, alone or after others.
TEST_F(FailingSequences, ThatAFindingExplainsAreCountedThere) {
  bug_ = Bug::kTruncated;
  const auto [first, shown] = truncated_sessions();
  const std::string after = sequences::encode({appends(1, 1), {first}}), alone = sequences::encode({shown, {}});
  for (const bool state_first : {true, false}) {
    write_findings(options_.dir, {});
    file(state_first ? after : alone);
    ASSERT_EQ(findings().size(), 1u);
    const Finding before = findings()[0];
    EXPECT_EQ(before.repeats, state_first ? Repeats::kAfterOthers : Repeats::kAlways);
    file(state_first ? alone : after);
    const std::vector<Finding> found = findings();
    ASSERT_EQ(found.size(), 1u) << "the state is first: " << state_first;
    EXPECT_EQ(found[0].key, "fake|sequences|wrong|append|append|new|truncate");
    EXPECT_EQ(found[0].count, 2u);
    const std::string old = options_.dir + "/findings/" + before.name + ".calls.json";
    EXPECT_EQ(std::filesystem::exists(old), !state_first)
        << "the files of a finding that is explained are removed";
  }
}

// A page that is begun again can be one of a sequence that was cut or has ended, or of another session.
// Whatever came first, it is one finding, with the same smallest sequence of calls.
TEST_F(FailingSequences, ThatShowOneBugInSeveralWaysAreOneFinding) {
  bug_ = Bug::kBegunPage;
  const sequences::Step begin = {.verb = Verb::kNew, .entries = {0}},
                        two = {.verb = Verb::kAppend, .entries = {0}, .count = 2, .token = 32768},
                        cut = {.verb = Verb::kTruncate, .entries = {0}, .count = 0},
                        end = {.verb = Verb::kFree, .entries = {0}},
                        again = {.verb = Verb::kAppend, .entries = {0}, .count = 3, .token = 65536};
  sequences::Session truncated = appends(0, 0), ended = truncated;
  truncated.steps = {begin, two, cut, again};
  ended.steps = {begin, two, end, begin, again};
  const std::string ways[] = {sequences::encode({truncated, {}}), sequences::encode({ended, {}}),
                              sequences::encode({appends(1, 2), {appends(2, 1)}})};
  for (size_t first = 0; first < std::size(ways); ++first) {
    write_findings(options_.dir, {});
    for (size_t n = 0; n < std::size(ways); ++n) {
      file(ways[(first + n) % std::size(ways)]);
      ASSERT_EQ(findings().size(), 1u) << first << " " << n << " " << findings().back().key;
    }
    EXPECT_EQ(findings()[0].count, std::size(ways));
    EXPECT_EQ(findings()[0].repeats, Repeats::kAlways);
    EXPECT_EQ(findings()[0].key, "fake|sequences|wrong|append|append|new|truncate");
  }
}

// A bug of forks in pages of one key does not become the bug of pages of several keys, which has fewer steps.
TEST_F(FailingSequences, ThatShowTwoBugsAreTwoFindings) {
  bug_ = Bug::kPagesAndForks;
  sequences::Session forked = appends(1, 1);
  forked.setup.page_size = 1;
  forked.steps.push_back({.verb = Verb::kFork, .entries = {0, 1}});
  forked.steps.push_back({.verb = Verb::kAppend, .entries = {0, 1}, .count = 1, .token = 4096 * 16});
  const std::string bugs[] = {sequences::encode({appends(3, 2), {}}), sequences::encode({forked, {}})};
  for (const size_t first : {0, 1}) {
    write_findings(options_.dir, {});
    for (const size_t n : {first, 1 - first}) file(bugs[n]);
    std::set<std::string> keys;
    for (const Finding& f : findings()) keys.insert(f.key);
    EXPECT_EQ(keys, (std::set<std::string>{"fake|sequences|wrong|append|append|new",
                                           "fake|sequences|wrong|append|append|fork|new"}))
        << first;
  }
}

// The ledger names the finding, so it stays in the folder, though another explains it.
TEST_F(FailingSequences, ThatAreToleratedAreNotReplaced) {
  bug_ = Bug::kTruncated;
  const auto [first, shown] = truncated_sessions();
  KnownFailure known;
  known.key = "fake|sequences|wrong|append|after others|append|new";
  known.reason = "issue 9";
  options_.ledger.known = {known};
  file(sequences::encode({appends(1, 1), {first}}));
  ASSERT_EQ(findings().size(), 1u);
  ASSERT_EQ(findings()[0].tolerated, "issue 9") << findings()[0].key;
  file(sequences::encode({shown, {}}));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].tolerated, "issue 9");
  EXPECT_EQ(found[1].tolerated, "");
}

// A tolerated bug of forks and truncates hides no bug of truncates alone.
TEST_F(FailingSequences, ThatAToleratedFindingWouldExplainAreFindings) {
  bug_ = Bug::kTruncated;
  const auto [first, shown] = truncated_sessions();
  sequences::Session forked = shown;
  forked.steps.push_back({.verb = Verb::kFork, .entries = {0, 1}});
  Finding known;
  known.name = "known";
  known.key = sequences_key("fake", {forked, {}}, "wrong", "append");
  known.target = "fake.cpu.plain";
  known.property = kOfSequences;
  known.kind = "wrong";
  known.count = 1;
  known.tolerated = "issue 9";
  write_file(options_.dir + "/findings/known.calls.json", sequences::encode({forked, {}}));
  write_findings(options_.dir, {{known}, {}});
  file(sequences::encode({shown, {}}));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].count, 1u);
  EXPECT_EQ(found[1].key, "fake|sequences|wrong|append|append|new|truncate");
  EXPECT_EQ(found[1].tolerated, "");
}

// It did not fail alone at first, but its reduced form does, so it is no longer said to depend on others.
TEST_F(FailingSequences, ThatNeedNoOthersOnceReducedAreMeasuredAgain) {
  bug_ = Bug::kLater;
  file(sequences::encode({appends(2, 2), {appends(1, 1)}}));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(chain_of("/findings/" + found[0].name + ".calls.json").before.empty());
  EXPECT_EQ(found[0].repeats, Repeats::kAlways);
  EXPECT_EQ(found[0].failed, 3);
  EXPECT_EQ(found[0].runs, 3);
}

TEST_F(FailingSequences, ThatNeverFailAgainAreKeptApart) {
  bug_ = Bug::kNone;
  file(sequences::encode({appends(3, 2), {appends(1, 1)}}));
  EXPECT_TRUE(findings().empty());
  ASSERT_EQ(never_again().size(), 1u);
  const Finding f = never_again()[0];
  EXPECT_EQ(f.runs, 10);
  EXPECT_EQ(f.message, "it fails");
  const Chain kept = chain_of("/never_again/" + f.name + ".calls.json");
  EXPECT_EQ(kept.before.size(), 1u) << "the file is as it was found";
}

// Findings without a file would be lost, and so would files without a finding.
TEST_F(FailingSequences, AreNamedIfTheyAreNotListed) {
  file(sequences::encode({appends(3, 2), {}}));
  const std::string name = findings().at(0).name;
  EXPECT_TRUE(unlisted_findings(options_.dir, read_findings(options_.dir)).empty());
  write_findings(options_.dir, {});
  const std::vector<std::string> unlisted = unlisted_findings(options_.dir, {});
  ASSERT_EQ(unlisted.size(), 1u);
  EXPECT_THAT(unlisted[0], HasSubstr(name + ".calls.json exists, but findings.json does not list it"));
}

TEST_F(FailingSequences, AtAKnownPlaceAreCountedThereUnrun) {
  Finding known;
  known.name = known.key = "fake-crash-1";
  known.target = "fake.cpu.plain";
  known.kind = "crash";
  known.count = 1;
  known.sites = {"SIGSEGV at libfake.so+0x12"};
  write_findings(options_.dir, {{known}, {}});
  file(sequences::encode({appends(1, 1), {}}), "crash", known.sites[0]);
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 2u);
  EXPECT_EQ(opened_, 0);
}

TEST_F(FailingSequences, GoOnFromTheBestFileOfAnInterruptedReduction) {
  file(sequences::encode({appends(9, 5), {}}));
  sequences::Session best = appends(1, 2);
  best.setup.pages = 7;  // a mark
  write_file(options_.dir + "/crashing/s0/best.calls.json", sequences::encode({best, {}}));
  options_.reduce_seconds = 0;
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].reduced);
  EXPECT_EQ(chain_of("/findings/" + found[0].name + ".calls.json").last.setup.pages, 7);
}

// Files of a stranger, or a crash that ends the triage.
TEST_F(FailingSequences, ThatCannotBeExaminedAreKeptAndNotRun) {
  file("{}");
  for (int exits = 0; exits < 2; ++exits) {
    EXPECT_THROW(findings(), std::runtime_error);
    note_triage_exit(options_.dir);
  }
  EXPECT_TRUE(findings().empty());
  ASSERT_EQ(never_again().size(), 1u);
  EXPECT_EQ(opened_, 0);
  EXPECT_EQ(never_again()[0].message, "it fails (running it again ended the triage process)");
  EXPECT_EQ(file_text(options_.dir + "/never_again/" + never_again()[0].name + ".calls.json"), "{}");
}

TEST_F(FailingSequences, AreToleratedByKeyAndLookedAtAgain) {
  KnownFailure known;
  known.key = "fake|sequences|wrong|append|append|new";
  known.reason = "issue 7";
  options_.ledger.known = {known};
  file(sequences::encode({appends(2, 3), {}}));
  const std::vector<Finding> found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tolerated, "issue 7");

  known.reproducer = options_.dir + "/findings/" + found[0].name + ".calls.json";
  const auto again = [&] { return recheck(known, options_.ledger, targets_); };
  targets_[0].info.library = "fake";
  EXPECT_EQ(again().answer, Recheck::Answer::kFails);
  EXPECT_EQ(again().text, "");
  bug_ = Bug::kDies;
  EXPECT_THAT(again().text, HasSubstr("fails in another way: 'crash', its reproducer says 'wrong'"));
  bug_ = Bug::kNone;
  EXPECT_EQ(again().answer, Recheck::Answer::kHolds);
  EXPECT_THAT(again().text, HasSubstr("no longer fails: take it out of the ledger (passed in 10 of 10 runs)"));
  // The failing append is refused, while one of a row still runs. The ledger has the key or the name.
  bug_ = Bug::kRefuses;
  sequences::Session refused = appends(2, 3);
  refused.steps[1].count = 1;
  const std::string reproducer = file_text(known.reproducer);
  sequences::SessionFile was = std::get<sequences::SessionFile>(sequences::decode_session(reproducer));
  EXPECT_EQ(was.found.call, "append");
  write_file(known.reproducer, sequences::encode({refused, {}}, was.found));
  for (const std::string& key : {known.key, found[0].name, std::string("renamed")}) {
    known.key = key;
    EXPECT_EQ(again().answer, Recheck::Answer::kUnknown) << key;
    EXPECT_THAT(again().text, HasSubstr("the call that failed is not made any more: append: "));
  }
  // Attends were never made, and the appends still are.
  bug_ = Bug::kNone;
  refused.steps.push_back({.verb = Verb::kAttend, .entries = {0}, .count = 1});
  write_file(known.reproducer, sequences::encode({refused, {}}, was.found));
  EXPECT_EQ(again().answer, Recheck::Answer::kHolds) << "the file says which call failed";
  was.found.call = "";
  write_file(known.reproducer, sequences::encode({refused, {}}, was.found));
  EXPECT_EQ(again().answer, Recheck::Answer::kUnknown) << "neither file, key nor name says which call failed";
  known.key = sequences_key("fake", {refused, {}}, "wrong", "append");
  EXPECT_EQ(again().answer, Recheck::Answer::kHolds);
  write_file(known.reproducer, reproducer);
  targets_[0].record.build_kind = "asan";
  EXPECT_THAT(again().text,
              HasSubstr("was not looked at: its kernel, fake (cpu, plain), is not in this session"));
  targets_[0].record.build_kind = "plain";
  KnownFailure quarantine;
  quarantine.quarantined = true;
  quarantine.reason = "issue 8";
  quarantine.kernel = "fake";
  options_.ledger.known.push_back(quarantine);
  EXPECT_THAT(again().text, HasSubstr("was not looked at: the ledger quarantines cases of its kernel"));
  options_.ledger.known.pop_back();
  write_file(known.reproducer, sequences::encode({appends(2, 3), {}}));
  EXPECT_THAT(again().text, HasSubstr("does not say on which kernel, back end and build it failed"));
}

TEST_F(FailingSequences, AreInTheReport) {
  CampaignHeader header;
  header.targets = {targets_[0].record};
  header.targets[0].sequences = true;
  header.sessions.resize(1);
  header.sessions[0].ended = "time";
  write_header(options_.dir, header);
  file(sequences::encode({appends(3, 2), {}}));
  const std::string name = findings().at(0).name;
  const report::Report report = report::read_report(options_.dir);
  EXPECT_THAT(report.problems, ::testing::IsEmpty());
  EXPECT_EQ(report.status, CampaignStatus::kFound);
  const Json finding = report_json(report, "now").at("findings").at(0);
  EXPECT_EQ(finding.at("replay"),
            "attnfuzz sequence --replay " + options_.dir + "/findings/" + name + ".calls.json fake");
  EXPECT_THAT(finding.at("reproducer").get<std::string>(), HasSubstr("attnfuzz_calls"));
  write_file(options_.dir + "/findings/" + name + ".calls.json", "{}");
  EXPECT_THAT(report::read_report(options_.dir).problems,
              ::testing::ElementsAre(HasSubstr("holds no sequence of calls")));
}

TEST(WordsOfSequences, AreItsKindsOfSteps) {
  sequences::Session session = appends(2, 3);
  session.relation = sequences::Relation::kSplit;
  session.steps.push_back({.verb = Verb::kTruncate, .entries = {0}, .count = 1});
  session.steps.push_back({.verb = Verb::kAttend, .entries = {0}, .counts = {2}});
  session.steps.push_back({.verb = Verb::kAttend, .entries = {0}, .count = 1, .split = 1});
  using Words = std::set<std::string>;
  EXPECT_EQ(words_of(session),
            (Words{"append", "attend", "divided", "new", "packed", "relation split", "truncate"}));
  EXPECT_FALSE(without_special({session, {}}, {"append", "attend", "new", "fork"}).has_value());
  const auto words = [&](const Words& without) {
    return words_of(without_special({session, {}}, without)->last);
  };
  EXPECT_EQ(words({"truncate"}), (Words{"append", "attend", "divided", "new", "packed", "relation split"}));
  EXPECT_EQ(words({"packed"}), (Words{"append", "attend", "divided", "new", "relation split", "truncate"}));
  EXPECT_EQ(words({"divided", "relation split"}), (Words{"append", "attend", "new", "packed", "truncate"}));
  EXPECT_EQ(words_of(without_special({appends(1, 1), {session}}, {"truncate"})->before[0]).count("truncate"),
            0u);
}

// A target that was to have sequences of calls does not pass without any, or without a judged one.
TEST(SequencesOfTarget, MustHaveBeenJudged) {
  CampaignHeader header;
  header.targets.resize(1);
  header.targets[0].name = "t";
  header.targets[0].sequences = true;
  header.sessions.resize(1);
  header.sessions[0].ended = "time";
  std::map<std::string, TargetStats> stats;
  TargetStats& of = stats["t"];
  of.rows = 1;
  const auto why = [&] {
    const std::vector<std::string> all = not_judged(header, {{0, stats}});
    return all.empty() ? "" : all[0];
  };
  EXPECT_EQ(why(), "t: no sequence of calls was run: run it longer");
  of.sequences.sequences = 60;
  of.sequences.asked = {{"append", 5}, {"copy_pages", 3}};
  EXPECT_THAT(why(), HasSubstr("of 60 sequences of calls, no call was judged"));
  of.sequences.judged = {{"append", 5}};
  EXPECT_THAT(why(), HasSubstr("nothing was judged of the operation copy_pages"));
  of.sequences.judged["copy_pages"] = 1;
  EXPECT_EQ(why(), "");
  // From 20 calls on, half of those of each operation, and of all together, must be judged.
  of.sequences.asked["append"] = 20;
  of.sequences.judged["append"] = 9;
  EXPECT_THAT(why(), HasSubstr("most calls of the operation append were not judged: 9 of 20 were"));
  of.sequences.judged["append"] = 11;
  EXPECT_EQ(why(), "");
  of.sequences.asked["copy_pages"] = 19;
  EXPECT_THAT(why(), HasSubstr("in sequences of calls, most calls were not judged: 12 of 39 were"));
  of.sequences = {};
  header.targets[0].sequences = false;
  EXPECT_EQ(why(), "");
}

}  // namespace
}  // namespace attnfuzz
