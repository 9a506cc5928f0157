#include "cli/check/filing.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "cli/print/verdict.h"
#include "fuzz/check/failure/earlier.h"
#include "fuzz/check/failure/exploits.h"
#include "fuzz/check/takes/refusals.h"
#include "properties/case/features/domain.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// True if the file of this reproducer may take the place of the other: it holds the same case of the same
// kernel, or the same warning. A name says neither the back end nor the values, and two libraries may have one
// name.
bool replaces(const Reproducer& r, const Reproducer& other) {
  const bool warnings = r.kind == kWarningKind && other.kind == kWarningKind;
  return other.kernel == r.kernel && other.backend == r.backend && other.kind == r.kind &&
         other.property == r.property && (warnings || other.c == r.c);
}

// The reproducer's name. It gets a number if a file of that name is there, unless it is `own`, or this
// reproducer replaces it.
std::string file_for(const Reproducer& r, const std::string& folder, const std::string& own = "") {
  const std::filesystem::path stem = std::filesystem::path(folder) / reproducer_name(r);
  for (int n = 1;; ++n) {
    const std::string name = stem.string() + (n > 1 ? "-" + std::to_string(n) : "") + ".attn.json";
    if (name == own || !std::filesystem::exists(name)) return name;
    const auto there = read_reproducer(name);
    const auto* other = std::get_if<Reproducer>(&there);
    if (other != nullptr && replaces(r, *other)) return name;
  }
}

// One failure on its way to its file.
class FailureFile {
 public:
  FailureFile(Failure& found, Target& target, const Calibration& calibration, const Filing& filing)
      : found_(found), target_(target), calibration_(calibration), filing_(filing) {}

  Filed file() {
    const std::optional<Verdict> again = judge_again();
    std::filesystem::create_directories(filing_.folder);
    write(target_, found_.c, found_.verdict, nullptr);
    if (before_) write_before();
    if (!again) return std::move(filed_);
    if (reduction_key(target_.info(), *again) != reduction_key(target_.info(), found_.verdict))
      filed_.how.push_back("in a fresh worker it fails in another way, and that is reduced: " + again->message);
    ReduceOptions options = reduce_options();
    reduce(*again, options);
    if (filing_.open_build && more_to_see(target_.info(), filed_.reduction->verdict)) ask_other_builds(options);
    return std::move(filed_);
  }

 private:
  // Judges the failure in a fresh worker. Returns nothing if the failure must not be reduced; its first verdict
  // then stands.
  std::optional<Verdict> judge_again() {
    // A disagreement of two oracles is not a failure of the kernel. Here only the CPU's oracle
    // judges.
    if (found_.fatal || found_.verdict.kind == Kind::kOracle) return std::nullopt;
    filing_.at_work(fmt::format("case {} fails: judged again, in a fresh worker", found_.index));
    std::optional<Verdict> again = confirm(found_.c, found_.verdict, *found_.property, target_, calibration_);
    found_.flaky = !again;
    if (again) return again;
    const bool numbers = is_about_numbers(found_.verdict.kind);
    // The answer of an untrusted kernel depends on earlier calls.
    if (numbers && filing_.untrusted) found_.verdict.exploit = Exploit::kState;
    if (numbers && !filing_.untrusted) {
      filing_.at_work(
          fmt::format("right by itself: tried again behind the cases before it, for {:.0f} s at most",
                      filing_.reduce_seconds));
      before_ = earlier_cases(found_, target_, calibration_, filing_.check, filing_.reduce_seconds);
    }
    found_.flaky = !before_;
    found_.verdict.message +=
        before_
            ? fmt::format("; right by itself: it fails behind {} in one worker",
                          several(before_->size(), "other case"))
            : "; FLAKY: it did not fail again in two fresh workers, so it comes and goes, or depends on what "
              "ran before";
    return std::nullopt;
  }

  void write(Target& of, const Case& c, const Verdict& v, const Reduction* reduction) {
    Reproducer r = found_.fatal ? without_digests(c, v, of.info()) : reproducer_of(c, v, reduction, of);
    r.peer = peer_name(of);
    std::string& file = filed_.reproducer;
    const std::string name = file_for(r, filing_.folder, made_ ? file : "");
    const bool made = std::filesystem::exists(name) ? made_ && name == file : true;
    write_file(name, encode(r, name));
    if (made_ && file != name) std::filesystem::remove(file);
    file = name;
    made_ = made;
  }

  // Writes the cases that must run before the failing one, each to its own file.
  void write_before() {
    const std::string& file = filed_.reproducer;
    const std::string stem = file.substr(0, file.size() - std::string_view(".attn.json").size());
    for (const Earlier& one : *before_) {
      Verdict held;
      held.property = one.property->name;
      filed_.before.push_back(fmt::format("{}.before-{}.json", stem, filed_.before.size() + 1));
      Reproducer r = reproducer_of(one.c, held, nullptr, target_);
      r.kind.clear();  // this case did not fail
      write_file(filed_.before.back(), encode(r, filed_.before.back()));
      filed_.how.push_back(
          fmt::format("behind case {}, {}: {}", one.index, one.property->name, describe(one.c)));
    }
    filed_.guess = {FaultClass::kState, "right in a fresh worker, wrong behind other calls in one process"};
  }

  ReduceOptions reduce_options() {
    ReduceOptions options;
    options.seconds = filing_.reduce_seconds;
    options.stop = filing_.stop;
    options.on_better = [this](const Case& best, const Verdict& v) { write(target_, best, v, nullptr); };
    // Outside of the caller's domain a kernel may fail legitimately, so the reduction stays inside.
    if (!filing_.check.terms) return options;
    Case inside = found_.c;
    keep_inside(filing_.check, inside);
    if (inside == found_.c) options.fit = [this](Case& c) { keep_inside(filing_.check, c); };
    return options;
  }

  void reduce(const Verdict& again, const ReduceOptions& options) {
    filing_.at_work(fmt::format("reduced, for {:.0f} s at most", filing_.reduce_seconds));
    const auto start = std::chrono::steady_clock::now();
    if (filing_.untrusted) {
      const Exploit exploit = find_exploit(found_.c, again, *found_.property, target_, calibration_);
      if (exploit != Exploit::kNone) found_.verdict.exploit = exploit;
    }
    filed_.reduction = reduce_failure(found_.c, again, *found_.property, target_, calibration_, options);
    filed_.reduce_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    write(target_, filed_.reduction->minimal, filed_.reduction->verdict, &*filed_.reduction);
    filed_.guess = guess_of(*filed_.reduction, target_, calibration_);
  }

  // Runs the reduced case in the sanitizer builds. If one reports a fault, the case is reduced again in that
  // build, with half the time limit, because it is already small.
  void ask_other_builds(ReduceOptions options) {
    constexpr double kOfSeconds = 0.5;
    options.seconds = kOfSeconds * filing_.reduce_seconds;
    options.on_better = nullptr;
    const Reduction& mine = *filed_.reduction;
    Vote vote = ask_builds(mine.minimal, mine.verdict, target_, filing_.open_build, calibration_, options);
    filed_.vote = words(vote);
    if (!vote.reduction) return;
    filed_.build_kind = vote.build_kind;
    filed_.reduction = std::move(vote.reduction);
    write(*vote.target, filed_.reduction->minimal, filed_.reduction->verdict, &*filed_.reduction);
    filed_.guess = guess_of(*filed_.reduction, *vote.target, calibration_);
  }

  Failure& found_;
  Target& target_;
  const Calibration& calibration_;
  const Filing& filing_;
  std::optional<std::vector<Earlier>> before_;  // the cases without which it does not fail
  Filed filed_;
  bool made_ = false;  // filed_.reproducer was not there before, so a better case may replace it
};

}  // namespace

void keep_inside(const CheckOptions& check, Case& c) {
  if (check.finite) refusal_of_several(Limit::kFinite)->strip(c);
  if (!check.terms) return;
  strip_refused(check.terms->refused, c);
  fit(check.terms->domain, c);
}

Filed file_failure(Failure& found, Target& target, const Calibration& calibration, const Filing& filing) {
  if (!found.file.empty()) return {.reproducer = found.file};
  return FailureFile(found, target, calibration, filing).file();
}

void file_warnings(Target& target, const Filing& filing, Checked& checked) {
  for (const WarnedCase& warned : checked.result.warnings) {
    const StatisticalWarning& s = warned.warning;
    Verdict verdict;
    verdict.property = "reference";
    verdict.message = s.message;
    Reproducer r = reproducer_of(s.c, verdict, target.info(), target);
    r.kind = kWarningKind;
    std::filesystem::create_directories(filing.folder);
    checked.warnings.push_back(file_for(r, filing.folder));
    write_file(checked.warnings.back(), encode(r, checked.warnings.back()));
  }
}

}  // namespace attnfuzz
