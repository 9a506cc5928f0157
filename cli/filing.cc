#include "cli/filing.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "cli/session.h"
#include "fuzz/check/cheats.h"
#include "properties/case/words.h"
#include "text/printable.h"

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
  // Of a hang this may take several times what the watchdog gives a call.
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
    found.verdict.cheat = Cheat::kState;
  if (found.flaky) {
    found.verdict.message +=
        "; FLAKY: it did not fail again in two fresh workers, so it comes and goes, or depends "
        "on what ran before";
  }
  tell("in case " + std::to_string(found.index) + " of seed " + std::to_string(filing.check.seed));

  const auto file_it = [&](const Case& c, const Verdict& v, const Reduction* reduction) {
    const Reproducer r =
        found.fatal ? without_digests(c, v, target.info()) : reproducer_of(c, v, reduction, target);
    const std::string name = file_for(r, filing.folder);
    write_file(name, encode(r, name));
    if (!file.empty() && file != name) std::filesystem::remove(file);
    file = name;
  };
  std::filesystem::create_directories(filing.folder);
  file_it(found.c, found.verdict, nullptr);
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
  const auto start = std::chrono::steady_clock::now();
  if (filing.untrusted) {
    const Cheat cheat = find_cheat(found.c, *again, *found.property, target, calibration);
    if (cheat != Cheat::kNone) found.verdict.cheat = cheat;
    if (cheat != Cheat::kNone) std::printf("  it looks like: %s\n", to_string(cheat));
  }
  filed.reduction = reduce_failure(found.c, *again, *found.property, target, calibration, options);
  filed.reduce_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Reduction& reduction = *filed.reduction;
  file_it(reduction.minimal, reduction.verdict, &reduction);
  std::printf("\nREDUCED in %lld evaluations%s\n", (long long)reduction.evaluations,
              reduction.complete ? "" : " (the clock ran out: attnfuzz reduce FILE goes on)");
  filed.guess = guess_of(reduction, target, calibration);
  print(reduction_text(reduction, filed.guess));
  return filed;
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
  const std::string name = without_digests({}, {}, kernel).kernel;
  int tried = 0;
  target.watch(Watch::kBrief);
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
    if (r->backend != kernel.backend || r->c.lane != kernel.lane) continue;
    std::error_code other;
    if (r->kernel != name && !std::filesystem::equivalent(r->kernel, name, other)) continue;
    const auto why = illegal(r->c);
    if (why || find_property(r->property) == nullptr) {
      not_tried(why ? *why : "there is no property '" + printable(r->property, 60) + "'");
      continue;
    }
    const auto property = std::ranges::find(filing.check.properties, find_property(r->property));
    if (property == filing.check.properties.end()) continue;
    ++tried;
    Failure failure = {
        .c = r->c, .verdict = judge(r->c, **property, target, calibration), .property = *property};
    failure.file = file;
    if (failure.verdict.outcome == Outcome::kFail) result.add(std::move(failure));
    if (!result.failures.empty() && !filing.check.keep_going) break;
  }
  target.watch(Watch::kFull);
  for (const std::string& why : checked.not_judged) print("  " + printable(why) + "\n");
  if (tried > 0) {
    std::printf("  found before, in %s: %d tried, %s\n", filing.folder.c_str(), tried,
                result.failures.empty() ? "none fails" : "one fails still");
  }
}

}  // namespace attnfuzz
