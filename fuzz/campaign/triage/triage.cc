#include "fuzz/campaign/triage/triage.h"

#include <algorithm>
#include <filesystem>

#include "fuzz/campaign/store/finding_list.h"
#include "fuzz/campaign/store/jobs/session_clock.h"
#include "fuzz/campaign/store/seeded_bug.h"
#include "fuzz/campaign/triage/crash_in_hand.h"
#include "fuzz/campaign/triage/files/finding_files.h"
#include "fuzz/campaign/triage/known_findings.h"
#include "fuzz/campaign/triage/run_again.h"
#include "fuzz/campaign/triage/sequence_crash.h"
#include "fuzz/check/failure/vote.h"
#include "fuzz/check/shard.h"
#include "properties/case/codec/codec.h"
#include "properties/case/words.h"
#include "properties/explain/clues.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

constexpr double kSeededBugSeconds = 10;

class OneCrash {
 public:
  OneCrash(const Triage& t, const CampaignTarget& target, const Crash& crash)
      : t_(t),
        target_(target),
        crash_(crash),
        folder_(t.options.dir + "/crashing/" + crash.id),
        property_(find_property(crash.property)) {}

  void run() {
    if (is_counted(t_.options.dir, crash_)) return remove();
    blind_ = ends_triage(folder_);
    save(t_, [&] { take_in_hand(folder_); });
    finding_ = finding_of(crash_);
    finding_.found = describe(crash_.c);
    if (is_at_a_known_site()) return remove();
    verdict_.property = crash_.property;
    verdict_.message = crash_.message;
    if (!crash_.shape.empty()) verdict_.shapes = {crash_.shape};
    verdict_.site = crash_.site;
    minimal_ = start_ = crash_.c;
    std::string error;
    worker_ = target_.open(&error);
    if (worker_ == nullptr) throw std::runtime_error(error);
    // A disagreement between two oracles shows again only if both judge.
    if (target_.put_oracle && crash_.kind == to_string(Kind::kOracle)) target_.put_oracle(*worker_, true);
    if (blind_ || property_ == nullptr) {
      finding_.repeats = Repeats::kNever;
      finding_.reduced = false;
      verdict_.message += " (running it again ended the triage process)";
    } else {
      run_again();
      if (verdict_.kind == Kind::kHang) worker_->watch(Watch::kBrief);  // most of its variants hang too
      if (finding_.repeats == Repeats::kAlways && is_explained()) return remove();
      if (finding_.repeats == Repeats::kAlways || finding_.repeats == Repeats::kSometimes) reduce_it();
      if (!reached_.empty()) return count_under(reached_), remove();
      if (finding_.repeats == Repeats::kAlways && minimal_is_explained()) return remove();
      if (finding_.repeats == Repeats::kAlways && !target_.record.seeded_bug) ask_builds();
    }
    write();
    remove();
  }

 private:
  bool is_at_a_known_site() { return !target_.record.seeded_bug && count_at_known_site(t_, crash_, finding_); }

  void run_again() {
    const Repetition again =
        attnfuzz::run_again(crash_, *property_, *worker_, target_.calibration, folder_ + "/trace.jsonl");
    finding_.repeats = again.repeats;
    finding_.failed = again.failed;
    finding_.runs = again.runs;
    trace_ = again.trace;
    if (again.repeats != Repeats::kNever) verdict_ = again.verdict;
  }

  // Judges by the property `reference`. A failure with another key counts as a rejection.
  Verdict judged_alike(const Case& c, const std::string& key) {
    Verdict verdict = judge(c, *find_property("reference"), *worker_, target_.calibration);
    if (verdict.outcome == Outcome::kFail && reduction_key(target_.info, verdict) != key)
      verdict.outcome = Outcome::kRefused;
    return verdict;
  }

  // Is this crash explained by a known finding? If not, the parts that known findings need are removed, so that
  // the reduction cannot end in them. A tolerated finding explains nothing here: another bug may need the same
  // parts, and it would be hidden for as long as the ledger has the entry.
  bool is_explained() {
    known_ = recall(t_.options.dir, t_.targets, target_, *worker_);
    if (known_.empty()) return false;
    const std::string key = reduction_key(target_.info, verdict_);
    // The case that a relation used may be wrong by itself. If not, nothing can be said.
    const JudgeIt judged = [&](const Case& c) { return judged_alike(c, key); };
    std::vector<Case> by_itself = {start_};
    if (verdict_.failing) {
      by_itself.push_back(*verdict_.failing);
      by_itself.back().remap = Remap{};
    }
    Verdict alone;
    for (const Case& c : by_itself) {
      if (alone.outcome == Outcome::kFail) break;
      alone = judged(c);
      if (alone.outcome == Outcome::kFail) start_ = c;
    }
    if (alone.outcome != Outcome::kFail) return false;
    verdict_ = alone;
    property_ = find_property("reference");
    for (const KnownFinding& known : known_) {
      // Without parts that could be removed, a finding explains the failures of its kind.
      if (!tells_apart(known.need) && !fails_with(known.verdict, key)) continue;
      Explained e = explains(known.need, start_, verdict_, judged);
      if (e.answer == Explains::kYes && !known.tolerated) {
        count_under(known.name);
        return true;
      }
      if (e.answer != Explains::kNo) continue;  // if it is that bug, its reduction will end there
      start_ = std::move(e.c);
      verdict_ = std::move(e.verdict);
    }
    return false;
  }

  bool fails_with(const Verdict& verdict, const std::string& key) const {
    return verdict.outcome == Outcome::kFail && reduction_key(target_.info, verdict) == key;
  }

  // Is the reduced case explained by a known finding that is not tolerated, whatever its failure looks like?
  // Also collects the earlier findings that it explains.
  bool minimal_is_explained() {
    if (verdict_.property != "reference") return false;
    const JudgeIt judged = [&](const Case& c) {
      return judge(c, *find_property("reference"), *worker_, target_.calibration);
    };
    const auto behind = [&](const NeededParts& need, const Case& c, const Verdict& verdict) {
      return tells_apart(need) && explains(need, c, verdict, judged).answer == Explains::kYes;
    };
    for (const KnownFinding& known : known_) {
      if (known.tolerated || !behind(known.need, minimal_, verdict_)) continue;
      count_under(known.name);
      return true;
    }
    if (!finding_.reduced) return false;
    const NeededParts mine = needed_parts(minimal_, finding_.needs);
    for (const KnownFinding& known : known_) {
      if (known.tolerated || !behind(mine, known.c, known.verdict)) continue;
      replaced_.push_back(known.name);
    }
    return false;
  }

  void count_under(const std::string& name) {
    FindingsFile all = read_findings(t_.options.dir);
    for (Finding& f : all.findings) {
      if (f.name == name) count_together(f, finding_);
    }
    save(t_, [&] { write_findings(t_.options.dir, all); });
  }

  // The tolerated finding whose reduced case this is, failing in the same way; nullptr if it is of none.
  const KnownFinding* tolerated_at(const Case& c, const Verdict& verdict) const {
    const auto known = std::ranges::find_if(known_, [&](const KnownFinding& k) {
      return k.tolerated && k.c == c && k.verdict.kind == verdict.kind && k.verdict.site == verdict.site &&
             verdict.property == "reference";
    });
    return known == known_.end() ? nullptr : &*known;
  }

  // Reduces a failure, but not beyond the case of a tolerated finding: nothing simpler was found from there
  // when that finding was reduced. This makes a frequent known bug cheap. Sets `reached_` if it ends there.
  Reduction reduce_as_far_as_known(const Case& c, const Verdict& verdict, const Property& property,
                                   ReduceOptions options) {
    bool is_there = false;
    options.on_better = [&, write = options.on_better](const Case& best, const Verdict& v) {
      is_there |= tolerated_at(best, v) != nullptr;
      write(best, v);
    };
    options.stop = [&] { return is_there; };
    Reduction reduction = reduce_failure(c, verdict, property, *worker_, target_.calibration, options);
    if (const KnownFinding* known = tolerated_at(reduction.minimal, reduction.verdict)) reached_ = known->name;
    if (!is_there || !reached_.empty()) return reduction;
    // It failed there only because of what the candidates before had left.
    options.stop = {};
    return reduce_failure(c, verdict, property, *worker_, target_.calibration, options);
  }

  void reduce_it() {
    const std::string best_file = folder_ + "/best.attn.json";
    Case start = start_;
    Verdict verdict = verdict_;
    const Property* property = property_;
    const auto best = read_reproducer(best_file);
    if (const auto* r = std::get_if<Reproducer>(&best)) {
      const Property* by = find_property(r->property);
      worker_->renew();
      const Verdict again = by ? judge(r->c, *by, *worker_, target_.calibration) : Verdict{};
      if (by != nullptr && again.outcome == Outcome::kFail &&
          reduction_key(target_.info, again) == reduction_key(target_.info, verdict)) {
        start = r->c;
        verdict = again;
        property = by;
      }
    }
    ReduceOptions options;
    options.seconds = target_.record.seeded_bug ? std::min(kSeededBugSeconds, t_.options.reduce_seconds)
                                                : t_.options.reduce_seconds;
    if (finding_.repeats == Repeats::kSometimes) options.attempts = 3 * finding_.runs / finding_.failed;
    options.on_better = [&](const Case& best, const Verdict& v) {
      const Reproducer r = reproducer_of(best, v, target_.info, *worker_);
      save(t_, [&] { write_file(best_file, encode(r, best_file)); });
    };
    options.may_take = stays_with;
    options.keep_site = true;
    const auto began = Clock::now();
    Reduction reduction = reduce_as_far_as_known(start, verdict, *property, options);
    if (!reached_.empty()) return;
    // The reduced case may be much faster than the case as found, so a second reduction tries more candidates.
    const double left = options.seconds - seconds_since(began);
    if (reduction.complete && left > 1) {
      options.seconds = left;
      const Property* by = find_property(reduction.verdict.property);
      Reduction again =
          reduce_as_far_as_known(reduction.minimal, reduction.verdict, by ? *by : *property, options);
      if (!reached_.empty()) return;
      again.evaluations += reduction.evaluations;
      if (again.complete) reduction = std::move(again);
    }
    finding_.reduce_seconds = seconds_since(began);
    take(std::move(reduction));
  }

  void take(Reduction reduction) {
    finding_.reduced = reduction.complete;
    finding_.evaluations += reduction.evaluations;
    finding_.needs = std::move(reduction.needs);
    finding_.indifferent = std::move(reduction.indifferent);
    minimal_ = std::move(reduction.minimal);
    verdict_ = std::move(reduction.verdict);
    finding_.guess = guess_fault({minimal_, verdict_, finding_.needs, worker_->info().build_kind,
                                  gather_clues(minimal_, verdict_, *worker_, target_.calibration)})
                         .line();
  }

  // If a sanitizer reports a fault, the failure becomes that fault, as in `check`.
  void ask_builds() {
    if (!target_.open_build || !more_to_see(worker_->info(), verdict_)) return;
    ReduceOptions options;
    constexpr double kOfSeconds = 0.5;  // share of the reduction's time; the case is already small
    options.seconds = kOfSeconds * t_.options.reduce_seconds;
    const auto began = Clock::now();
    Vote vote =
        attnfuzz::ask_builds(minimal_, verdict_, *worker_, target_.open_build, target_.calibration, options);
    finding_.votes = words(vote);
    if (vote.reduction) {
      finding_.also.push_back(target_.record.name + ": " + to_string(verdict_.kind));
      worker_ = std::move(vote.target);
      take(std::move(*vote.reduction));
    }
    finding_.reduce_seconds += seconds_since(began);
  }

  void write() {
    // The sanitizer build that reduced it again has its own library.
    Reproducer r = blind_ ? without_digests(minimal_, verdict_, target_.info)
                          : reproducer_of(minimal_, verdict_, worker_->info(), *worker_);
    if (verdict_.kind == Kind::kNone) r.kind = crash_.kind;
    r.peer = target_.record.peer;
    r.needs = finding_.needs;
    r.indifferent = finding_.indifferent;
    const Reproducer general = without_build(r, target_.folder);
    finding_.key = dedupe_key(general);
    finding_.name = reproducer_name(general);
    finding_.property = r.property;
    finding_.kind = r.kind;
    finding_.message = r.message;
    finding_.shape = r.shape;
    finding_.minimal = describe(minimal_);
    if (!verdict_.site.empty()) finding_.sites = {verdict_.site};
    if (const KnownFailure* known = tolerated(t_.options.ledger, finding_.key, finding_.name))
      finding_.tolerated = known->reason;

    if (target_.record.seeded_bug) return write_seeded_bug(r);
    enter_finding(t_, finding_, replaced_, [&](const std::string& folder) { write_files(folder, r); });
  }

  void write_files(const std::string& folder, const Reproducer& r) {
    const bool never = finding_.repeats == Repeats::kNever && !target_.record.seeded_bug;
    FindingFiles files = {finding_, r, trace_, std::nullopt};
    if (blind_) {
      files.picture = picture_without_error(minimal_, "Not run again, because it ended the triage process.");
    } else if (!never && !target_.record.seeded_bug) {
      files.picture = picture_of(finding_, minimal_, *worker_, target_.calibration);
    }
    const CampaignHeader header = read_header(t_.options.dir).value_or(CampaignHeader{});
    save(t_, [&] { attnfuzz::write_files(folder, files, header, target_.record); });
  }

  void write_seeded_bug(const Reproducer& r) {
    write_files(t_.options.dir + "/canary", r);
    std::vector<SeededBugResult> seeded_bugs = read_seeded_bugs(t_.options.dir);
    // The last session's seeded bug.
    const auto mine =
        std::ranges::find(seeded_bugs.rbegin(), seeded_bugs.rend(), finding_.target, &SeededBugResult::target);
    if (mine == seeded_bugs.rend()) return;
    const std::string due = to_string(seeded_bug_for(target_.record.build_kind).kind);
    mine->found = finding_.repeats != Repeats::kNever && r.kind == due;
    mine->finding = finding_.name;
    if (mine->found) {
      mine->message = "";
    } else if (finding_.repeats == Repeats::kNever) {
      mine->message = "it failed once, and in no later run";
    } else {
      mine->message = "its failure is '" + r.kind + "', but the seeded bug's is '" + due + "'";
    }
    save(t_, [&] { write_seeded_bugs(t_.options.dir, seeded_bugs); });
  }

  void remove() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  const Triage& t_;
  const CampaignTarget& target_;
  const Crash& crash_;
  const std::string folder_;
  const Property* property_;
  std::unique_ptr<Target> worker_;
  bool blind_ = false;  // the crash ended the process that examined it, so it has no verdict
  Finding finding_;
  Case start_, minimal_;
  Verdict verdict_;
  std::vector<KnownFinding> known_;
  std::string reached_;                // name of the tolerated finding at whose case the reduction has ended
  std::vector<std::string> replaced_;  // names of findings that the reduced case explains
  std::string trace_;
};

}  // namespace

void note_triage_exit(const std::string& dir) { release_crashes(dir, true); }

void triage(const Triage& t) {
  release_crashes(t.options.dir, false);  // the supervisor died too, so it does not count
  std::vector<Looked> looked;
  while (!t.shared.finish) {
    std::vector<Crash> crashes = read_crashes(t.options.dir);
    // Crashes of kernels that this session does not run wait for a session that does.
    std::erase_if(crashes, [&](const Crash& crash) { return find_target(t.targets, crash.target) == nullptr; });
    if (crashes.empty()) return;
    const auto seeded_bug = std::ranges::find_if(crashes, is_seeded_bug, &Crash::target);
    const Crash& crash = seeded_bug != crashes.end() ? *seeded_bug : crashes[choose_crash(crashes, looked)];
    const CampaignTarget* target = find_target(t.targets, crash.target);
    if (is_of_sequences(crash)) {
      examine_sequences(t, *target, crash);
    } else {
      OneCrash(t, *target, crash).run();
    }
    looked.push_back(look(crash));
    auto& kinds = t.shared.waiting[target - t.targets.data()];
    if (const auto kind = waiting_kind(crash.kind, is_of_sequences(crash)); kind && kinds[*kind] > 0)
      --kinds[*kind];
  }
}

}  // namespace attnfuzz
