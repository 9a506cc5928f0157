#include "cli/check/filing.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/printable.h"
#include "cli/terminal/terminal.h"
#include "fuzz/check/earlier.h"
#include "fuzz/check/exploits.h"
#include "fuzz/check/refusals.h"
#include "fuzz/host/lanes.h"
#include "properties/case/domain.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"

namespace attnfuzz {
namespace {

// Its name; where a file of that name is another kernel's (libraries of one name in two folders), with a
// number.
std::string file_for(const Reproducer& r, const std::string& folder) {
  const std::filesystem::path stem = std::filesystem::path(folder) / reproducer_name(r);
  for (int n = 1;; ++n) {
    const std::string name = stem.string() + (n > 1 ? "-" + std::to_string(n) : "") + ".attn.json";
    if (!std::filesystem::exists(name)) return name;
    const auto there = read_reproducer(name);
    const auto* other = std::get_if<Reproducer>(&there);
    if (other != nullptr && other->kernel == r.kernel) return name;
  }
}

// Into what the caller asks for.
void keep_inside(const CheckOptions& check, Case& c) {
  if (check.finite) refusal_of_several(Limit::kFinite)->strip(c);
  if (!check.terms) return;
  strip_refused(check.terms->refused, c);
  fit(check.terms->domain, c);
}

}  // namespace

Filed file_failure(Failure& found, Target& target, const Calibration& calibration, const Filing& filing) {
  Filed filed;
  std::string& file = filed.reproducer;
  const auto tell = [&](const std::string& where) {
    print("\nFAILURE " + where + "\n" + verdict_text(found.verdict) + "  case: " + describe(found.c) + "\n");
  };
  if (!found.file.empty()) {
    tell("found before, and still there: " + found.file);
    file = found.file;
    return filed;
  }
  // For a hang this may take several times the watchdog's allowance.
  const auto at_work = [](const std::string& what) {
    std::printf("%s ...\n", what.c_str());
    std::fflush(stdout);
  };
  std::optional<Verdict> again;
  // Two oracles that do not agree say nothing of the kernel, and here the CPU's is asked alone.
  const bool once = found.fatal || found.verdict.kind == Kind::kOracle;
  if (!once) {
    at_work("\ncase " + std::to_string(found.index) + " fails: judged again, in a fresh worker");
    again = confirm(found.c, found.verdict, *found.property, target, calibration);
  }
  found.flaky = !once && !again;
  // Right in a fresh worker: an answer that depends on those before it.
  if (found.flaky && filing.untrusted && is_about_numbers(found.verdict.kind))
    found.verdict.exploit = Exploit::kState;
  // One whose numbers hang on what ran before it, maybe.
  std::optional<std::vector<Earlier>> before;
  if (found.flaky && !filing.untrusted && is_about_numbers(found.verdict.kind)) {
    at_work("right by itself: tried again behind the cases before it, for " +
            std::to_string(std::lround(filing.reduce_seconds)) + " s at most");
    before = earlier_cases(found, target, calibration, filing.check, filing.reduce_seconds);
  }
  if (before) {
    found.flaky = false;
    found.verdict.message += "; right by itself: it fails behind " + std::to_string(before->size()) +
                             (before->size() == 1 ? " other case" : " other cases") + " in one worker";
  }
  if (found.flaky) {
    found.verdict.message +=
        "; FLAKY: it did not fail again in two fresh workers, so it comes and goes, or depends "
        "on what ran before";
  }
  tell("in case " + std::to_string(found.index) + " of seed " + std::to_string(filing.check.seed));

  const auto file_of = [&](Target& of, const Case& c, const Verdict& v, const Reduction* reduction) {
    Reproducer r = found.fatal ? without_digests(c, v, of.info()) : reproducer_of(c, v, reduction, of);
    r.peer = peer_name(of);
    const std::string name = file_for(r, filing.folder);
    write_file(name, encode(r, name));
    if (!file.empty() && file != name) std::filesystem::remove(file);
    file = name;
  };
  const auto file_it = [&](const Case& c, const Verdict& v, const Reduction* reduction) {
    file_of(target, c, v, reduction);
  };
  std::filesystem::create_directories(filing.folder);
  file_it(found.c, found.verdict, nullptr);
  if (before) {
    const std::string stem = file.substr(0, file.size() - std::string_view(".attn.json").size());
    for (const Earlier& one : *before) {
      Verdict held;
      held.property = one.property->name;
      filed.before.push_back(stem + ".before-" + std::to_string(filed.before.size() + 1) + ".json");
      Reproducer r = reproducer_of(one.c, held, nullptr, target);
      r.kind.clear();  // it failed in nothing
      write_file(filed.before.back(), encode(r, filed.before.back()));
      print("  behind case " + std::to_string(one.index) + ", " + one.property->name + ": " + describe(one.c) +
            "\n");
    }
    filed.guess = {FaultClass::kState, "right in a fresh worker, wrong behind other calls in one process"};
    print("  " + filed.guess.line() + "\n");
  }
  if (!again) return filed;
  if (reduction_key(target.info(), *again) != reduction_key(target.info(), found.verdict)) {
    std::printf("  in a fresh worker it fails in another way, and that is reduced: %s\n",
                again->message.c_str());
  }

  at_work("reduced, for " + std::to_string(std::lround(filing.reduce_seconds)) + " s at most");
  ReduceOptions options;
  options.seconds = filing.reduce_seconds;
  options.stop = filing.stop;
  options.on_better = [&](const Case& best, const Verdict& v) { file_it(best, v, nullptr); };
  // Outside of what the caller asks for a kernel may fail by rights, and in another way.
  if (filing.check.terms) {
    const auto fit_terms = [&filing](Case& c) { keep_inside(filing.check, c); };
    Case inside = found.c;
    fit_terms(inside);
    if (inside == found.c) options.fit = fit_terms;
  }
  const auto start = std::chrono::steady_clock::now();
  if (filing.untrusted) {
    const Exploit exploit = find_exploit(found.c, *again, *found.property, target, calibration);
    if (exploit != Exploit::kNone) found.verdict.exploit = exploit;
    if (exploit != Exploit::kNone) std::printf("  it looks like: %s\n", to_string(exploit));
  }
  filed.reduction = reduce_failure(found.c, *again, *found.property, target, calibration, options);
  filed.reduce_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Reduction& reduction = *filed.reduction;
  file_it(reduction.minimal, reduction.verdict, &reduction);
  std::printf("\nREDUCED in %lld evaluations%s\n", (long long)reduction.evaluations,
              reduction.complete ? "" : " (the clock ran out: attnfuzz reduce FILE goes on)");
  filed.guess = guess_of(reduction, target, calibration);
  print(reduction_text(reduction, filed.guess));
  if (!filing.open_lane || !more_to_see(target.info(), reduction.verdict)) return filed;
  // It is small already.
  constexpr double kOfSeconds = 0.5;
  options.seconds = kOfSeconds * filing.reduce_seconds;
  options.on_better = nullptr;
  Vote vote = ask_lanes(reduction.minimal, reduction.verdict, target, filing.open_lane, calibration, options);
  filed.vote = words(vote);
  print("  " + filed.vote + "\n");
  if (!vote.reduction) return filed;
  filed.lane = vote.lane;
  filed.reduction = std::move(vote.reduction);
  file_of(*vote.target, filed.reduction->minimal, filed.reduction->verdict, &*filed.reduction);
  filed.guess = guess_of(*filed.reduction, *vote.target, calibration);
  print("\nIN THE LANE " + vote.lane + ", reduced there in " + std::to_string(filed.reduction->evaluations) +
        " evaluations\n" + reduction_text(*filed.reduction, filed.guess));
  return filed;
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
    const std::string name = file_for(r, filing.folder);
    write_file(name, encode(r, name));
    checked.warnings.push_back(name);
    print("\nSTATISTICAL WARNING (" + s.sign + "), no failure: case " + std::to_string(warned.index) + ": " +
          printable(s.message) + "\n  case: " + describe(s.c) + "\n");
  }
}

void try_found_before(Target& target, const Calibration& calibration, const Filing& filing, Checked& checked) {
  CheckResult& result = checked.result;
  std::error_code none;
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(filing.folder, none)) {
    if (entry.path().string().ends_with(".attn.json") && entry.is_regular_file(none))
      files.insert(entry.path());
  }
  const KernelInfo& kernel = target.info();
  const std::string name = command_name(kernel);
  int tried = 0, outside = 0;
  for (const std::string& file : files) {
    const auto read = read_reproducer(file);
    const auto not_tried = [&](const std::string& why) {
      checked.not_judged.push_back(file + " was not tried: " + why + "; mend it, or move it away");
    };
    if (const auto* error = std::get_if<DecodeError>(&read)) {
      not_tried(error->message);
      continue;
    }
    const Reproducer* r = std::get_if<Reproducer>(&read);
    if (r->kind == kWarningKind) continue;  // it was no failure
    if (r->backend != kernel.backend) continue;
    // A failure that a sanitizer's lane took over is tried there.
    std::unique_ptr<Target> there;
    const Lane* lane = find_lane(r->c.lane);
    const bool took_over = lane != nullptr && lane->sanitizer() && more_to_see(kernel, {});
    if (took_over && filing.open_lane) there = filing.open_lane(lane->name);
    if (r->c.lane != kernel.lane && !there) continue;
    std::error_code other;
    const std::string named = there ? command_name(there->info()) : name;
    if (r->kernel != named && !std::filesystem::equivalent(r->kernel, named, other)) continue;
    const auto why = illegal(r->c);
    if (why || find_property(r->property) == nullptr) {
      not_tried(why ? *why : "there is no property '" + printable(r->property, 60) + "'");
      continue;
    }
    const auto property = std::ranges::find(filing.check.properties, find_property(r->property));
    if (property == filing.check.properties.end()) continue;
    if (Case inside = r->c; keep_inside(filing.check, inside), inside != r->c) {
      ++outside;
      continue;
    }
    ++tried;
    Failure failure = {.c = r->c,
                       .verdict = judge(r->c, **property, there ? *there : target, calibration),
                       .property = *property};
    failure.file = file;
    if (failure.verdict.outcome == Outcome::kFail) result.add(std::move(failure));
    if (!result.failures.empty() && !filing.check.keep_going) break;
  }
  for (const std::string& why : checked.not_judged) print("  " + printable(why) + "\n");
  if (outside > 0)
    std::printf("  found before, in %s: %d not tried, for %s leaves such cases out\n", filing.folder.c_str(),
                outside,
                !filing.check.finite ? "--domain"
                : filing.check.terms ? "--domain or --finite"
                                     : "--finite");
  if (tried > 0) {
    std::printf("  found before, in %s: %d tried, %s\n", filing.folder.c_str(), tried,
                result.failures.empty() ? "none fails" : "one fails still");
  }
}

}  // namespace attnfuzz
