#include "fuzz/campaign/triage/sequence_crash.h"

#include <algorithm>
#include <filesystem>

#include "fuzz/campaign/store/finding_list.h"
#include "fuzz/campaign/store/jobs/session_clock.h"
#include "fuzz/campaign/triage/crash_in_hand.h"
#include "fuzz/campaign/triage/files/finding_files.h"
#include "fuzz/campaign/triage/files/sequence_files.h"
#include "fuzz/campaign/triage/run_again.h"
#include "fuzz/campaign/triage/sequences_explained.h"
#include "properties/sequences/reduce/chain.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/codec.h"

namespace attnfuzz {
namespace {

class OneSequence {
 public:
  OneSequence(const Triage& t, const CampaignTarget& target, const Crash& crash)
      : t_(t),
        target_(target),
        crash_(crash),
        folder_(t.options.dir + "/crashing/" + crash.id),
        finding_(finding_of(crash)) {}

  void run() {
    const std::string& dir = t_.options.dir;
    if (is_counted(dir, crash_)) return remove();
    const bool blind = ends_triage(folder_);
    save(t_, [&] { take_in_hand(folder_); });
    if (is_at_a_known_site()) return remove();
    const auto read = sequences::decode_session(crash_.calls);
    if (const auto* error = std::get_if<DecodeError>(&read); error != nullptr && !blind)
      throw std::runtime_error(folder_ + "/crash.json: " + error->message);
    if (const auto* file = std::get_if<sequences::SessionFile>(&read)) small_.chain = file->chain;
    finding_.found = sequences_in_words(small_.chain);
    finding_.repeats = Repeats::kNever;
    finding_.reduced = false;
    if (blind) {
      finding_.message += " (running it again ended the triage process)";
    } else {
      open();
      run_again();
      if (is_at_a_known_site() || is_explained()) return remove();
      if (finding_.repeats != Repeats::kNever) reduce();
      explain_others();
    }
    write();
    remove();
  }

 private:
  void open() {
    std::string error;
    worker_ = target_.open(&error);
    if (worker_ == nullptr) throw std::runtime_error(error);
    const sequences::SessionTarget one = {worker_.get(), target_.calibration};
    kernels_ = sequences::SessionTargets(std::span(&one, 1));
  }

  bool fails(const sequences::Chain& chain) {
    sequences::SessionResult result = check_chain(chain, kernels_);
    if (!shows_again(crash_, result.verdict)) return false;
    small_.result = std::move(result);
    return true;
  }

  // Afterwards the chain is the last sequence alone if it fails by itself. The result is that of the last
  // failing run that counts.
  void run_again() {
    const sequences::Chain alone = {small_.chain.last, {}};
    const RunCount count = count_runs(
        crash_, [&] { return fails(alone); },
        [&] { return !small_.chain.before.empty() && fails(small_.chain); });
    finding_.repeats = count.repeats;
    finding_.failed = count.failed;
    finding_.runs = count.runs;
    if (count.repeats == Repeats::kNever) small_.result = {};  // one kill after others does not count
    if (count.repeats == Repeats::kAlways || count.repeats == Repeats::kSometimes) small_.chain = alone;
  }

  // Looks for the site of the crash, or of its rerun once it has failed again.
  bool is_at_a_known_site() {
    Crash crash = crash_;
    if (small_.result.verdict.outcome == Outcome::kFail) {
      crash.kind = to_string(small_.result.verdict.kind);
      crash.site = small_.result.verdict.site;
    }
    return count_at_known_site(t_, crash, finding_);
  }

  // The sequence of calls of a finding; nothing if it is none of this kernel, or its file cannot be read.
  std::optional<sequences::Chain> chain_of(const Finding& f) const {
    const CampaignTarget* owner = find_target(t_.targets, f.target);
    if (!is_of_sequences(f) || owner == nullptr || owner->folder != target_.folder) return std::nullopt;
    const auto text = read_file(t_.options.dir + "/findings/" + file_name_of(f), kInFolder);
    if (!std::holds_alternative<std::string>(text)) return std::nullopt;
    const auto read = sequences::decode_session(std::get<std::string>(text));
    const auto* file = std::get_if<sequences::SessionFile>(&read);
    return file == nullptr ? std::nullopt : std::optional(file->chain);
  }

  // True if both fail in the same call of the kernel.
  bool in_the_same_call(const Finding& f) const {
    const std::string begin = target_.folder + "|sequences|" + f.kind + "|" + small_.result.call + "|";
    return f.key.starts_with(begin);
  }

  // Do fully reduced findings explain this one? If not, what they need is left out before the reduction. A
  // tolerated finding explains nothing here, because another bug may need the same steps.
  bool is_explained() {
    if (finding_.repeats != Repeats::kAlways && finding_.repeats != Repeats::kAfterOthers) return false;
    FindingsFile all = read_findings(t_.options.dir);
    std::vector<std::pair<Finding*, std::set<std::string>>> known;
    std::set<std::string> words;  // of all of them
    for (Finding& f : all.findings) {
      if (f.repeats != Repeats::kAlways || !f.reduced || !in_the_same_call(f)) continue;
      const auto chain = chain_of(f);
      if (!chain) continue;
      known.emplace_back(&f, words_of(chain->last));
      words.insert(known.back().second.begin(), known.back().second.end());
    }
    auto other = without_special(small_.chain, words);
    if (known.empty() || !other) return false;
    sequences::SessionResult result = check_chain(*other, kernels_);
    if (result.verdict.outcome == Outcome::kFail) {
      if (!same_failure(result, small_.result)) return false;
      small_.chain = std::move(*other);
      small_.result = std::move(result);
      return false;
    }
    std::erase_if(known, [](const auto& one) { return !one.first->tolerated.empty(); });
    Finding* const explains = explaining(known);
    if (explains == nullptr) return false;
    finding_.kind = to_string(small_.result.verdict.kind);
    count_together(*explains, finding_);
    save(t_, [&] { write_findings(t_.options.dir, all); });
    return true;
  }

  // Returns the first finding that explains the failure alone; else the first whose special parts the failure
  // has; nullptr if there is none.
  Finding* explaining(const std::vector<std::pair<Finding*, std::set<std::string>>>& known) {
    Finding* part = nullptr;
    for (const auto& [finding, words] : known) {
      const auto other = without_special(small_.chain, words);
      if (!other) continue;
      if (check_chain(*other, kernels_).verdict.outcome != Outcome::kFail) return finding;
      if (part == nullptr) part = finding;
    }
    return part;
  }

  // Collects the earlier findings that needed others before them, or were not fully reduced, and that this one
  // explains. A tolerated finding stays, because the ledger names it.
  void explain_others() {
    if (finding_.repeats != Repeats::kAlways || !finding_.reduced) return;
    for (const Finding& f : read_findings(t_.options.dir).findings) {
      if (!f.tolerated.empty() || (f.repeats == Repeats::kAlways && f.reduced) || !in_the_same_call(f))
        continue;
      const auto known = chain_of(f);
      const auto other = known ? without_special(*known, words_of(small_.chain.last)) : std::nullopt;
      if (!other || check_chain(*known, kernels_).verdict.outcome != Outcome::kFail) continue;
      if (check_chain(*other, kernels_).verdict.outcome != Outcome::kFail) replaced_.push_back(f.name);
    }
  }

  // If a session has ended in the middle of the reduction, its best file is where this one begins.
  void take_best(const std::string& file) {
    const auto text = read_file(file, kInFolder);
    if (!std::holds_alternative<std::string>(text)) return;
    const auto read = sequences::decode_session(std::get<std::string>(text));
    const auto* best = std::get_if<sequences::SessionFile>(&read);
    if (best == nullptr) return;
    sequences::SessionResult result = check_chain(best->chain, kernels_);
    if (!same_failure(result, small_.result)) return;
    small_.chain = best->chain;
    small_.result = std::move(result);
  }

  void reduce() {
    const std::string best_file = folder_ + "/best.calls.json";
    take_best(best_file);
    const sequences::ReducedChain found = small_;
    const sequences::SessionResult& failed = found.result;
    const int attempts =
        finding_.repeats == Repeats::kSometimes ? std::max(1, 3 * finding_.runs / finding_.failed) : 1;
    const sequences::CheckChain check = [&](const sequences::Chain& chain) {
      sequences::SessionResult result = check_chain(chain, kernels_);
      for (int n = 1; n < attempts && !same_failure(result, failed); ++n) result = check_chain(chain, kernels_);
      if (same_failure(result, failed)) save(t_, [&] { write_file(best_file, text_of(chain, result)); });
      return result;
    };
    const auto began = Clock::now();
    sequences::ReducedChain reduced =
        reduce_chain(small_.chain, failed, kernels_, check, t_.options.reduce_seconds);
    finding_.reduce_seconds = seconds_since(began);
    finding_.evaluations = reduced.evaluations;
    finding_.reduced = reduced.again && finding_.reduce_seconds < t_.options.reduce_seconds;
    small_ = std::move(reduced);
    if (finding_.repeats == Repeats::kAfterOthers && small_.chain.before.empty() && !fails_alone()) {
      small_ = found;
      finding_.reduced = false;
    }
  }

  // Measures the reduced sequence of calls without those that were before the one as found. If it does not fail
  // again, the count of the one as found stays.
  bool fails_alone() {
    int failed = 0;
    for (int n = 0; n < kFreshRuns; ++n) failed += fails(small_.chain);
    if (failed == 0) return false;
    finding_.failed = failed;
    finding_.runs = kFreshRuns;
    finding_.repeats = failed == kFreshRuns ? Repeats::kAlways : Repeats::kSometimes;
    return true;
  }

  std::string text_of(const sequences::Chain& chain, const sequences::SessionResult& result) const {
    const TargetRecord& r = target_.record;
    return encode(chain, {{r.kernel},
                          to_string(result.verdict.kind),
                          result.verdict.message,
                          r.backend,
                          r.build_kind,
                          result.call});
  }

  void write() {
    const Verdict& verdict = small_.result.verdict;
    if (verdict.kind != Kind::kNone) {  // else it was not run, or did not fail again
      finding_.kind = to_string(verdict.kind);
      finding_.message = verdict.message;
      if (!verdict.site.empty()) finding_.sites = {verdict.site};
    }
    finding_.key = sequences_key(target_.folder, small_.chain, finding_.kind, small_.result.call);
    finding_.name = sequences_name(target_.folder, finding_);
    finding_.minimal = sequences_in_words(small_.chain);
    if (const KnownFailure* known = tolerated(t_.options.ledger, finding_.key, finding_.name))
      finding_.tolerated = known->reason;
    enter_finding(t_, finding_, replaced_, [&](const std::string& folder) {
      const CampaignHeader header = read_header(t_.options.dir).value_or(CampaignHeader{});
      const std::string text =
          verdict.kind == Kind::kNone ? crash_.calls : text_of(small_.chain, small_.result);
      save(t_, [&] { write_sequence_files(folder, finding_, small_, text, header, target_.record); });
    });
  }

  void remove() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const Triage& t_;
  const CampaignTarget& target_;
  const Crash& crash_;
  const std::string folder_;
  std::unique_ptr<Target> worker_;
  sequences::SessionTargets kernels_;
  Finding finding_;
  sequences::ReducedChain small_;      // and the last failing result
  std::vector<std::string> replaced_;  // names of findings that this one explains
};

}  // namespace

std::string sequences_key(const std::string& folder, const sequences::Chain& chain, const std::string& kind,
                          const std::string& call) {
  std::string key = folder + "|sequences|" + kind + "|" + call;
  if (!chain.before.empty()) key += "|after others";
  for (const std::string& word : words_of(chain.last)) key += "|" + word;
  return key;
}

void examine_sequences(const Triage& t, const CampaignTarget& target, const Crash& crash) {
  OneSequence(t, target, crash).run();
}

}  // namespace attnfuzz
