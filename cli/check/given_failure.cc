#include "cli/check/given_failure.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/check/filing.h"
#include "cli/print/failure.h"
#include "cli/terminal/terminal.h"
#include "properties/case/words.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

std::optional<Failure> ordinary(const GivenFailure& failure, Target& target, const Calibration& calibration) {
  const Property& property = *find_property("reference");
  std::optional<Failure> other;
  for (Case& c : ordinary_cases(failure.c, failure.inputs)) {
    std::string why;
    if (illegal(c) || !adapted(c, property, target, &why)) continue;
    Failure found = {.c = c, .verdict = judge(c, property, target, calibration), .property = &property};
    if (found.verdict.outcome != Outcome::kFail || !confirm(c, found.verdict, property, target, calibration))
      continue;
    if (std::string(kind_class(found.verdict.kind)) == kind_class(failure.verdict.kind)) return found;
    if (!other) other = found;
  }
  return other;
}

}  // namespace

void add_filing_options(CLI::App& command, FilingOptions& options, const std::string& shown) {
  command.add_option("--out", options.out, "folder for reproducers")->capture_default_str();
  command.add_option("--reduce-seconds", options.reduce_seconds, "wall clock for reducing a failure")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  add_verbose_flag(command, options.verbose, shown);
  add_target_options(command, options.target);
}

void file_given(const GivenFailure& failure, Target& target, const Calibration& calibration,
                const KernelLibrary& library, const GivenFiling& filing) {
  std::optional<Failure> found = ordinary(failure, target, calibration);
  if (!found) {
    print("  no case file: the call is right by itself on numbers that a case can hold\nagain: " +
          failure.again + "\n");
    return;
  }
  const CheckOptions none;
  const Filing how = {.check = none,
                      .folder = filing.options.out,
                      .reduce_seconds = filing.options.reduce_seconds,
                      .untrusted = !filing.options.target.untrusted.empty(),
                      .stop = filing.stop,
                      .open_build = nullptr,
                      .at_work = filing.at_work};
  Filed filed = file_failure(*found, target, calibration, how);
  filing.at_work("");
  filed.replay = replay_line(filed.reproducer, library.name, peer_name(target), filed.before) +
                 distrust_words(filing.options.target);
  FailureSections s = sections_of(*found, filed, failure.seed, filing.options.verbose);
  s.wrong.insert(s.wrong.begin(), "as a case by itself:");
  s.where.front() =
      fmt::format("found by {}, seed {}{}", failure.found, failure.seed,
                  filed.reduction ? ", reduced in " + several(filed.reduction->evaluations, "evaluation")
                                  : "; not reduced");
  print(failure_block(s, filing.options.verbose, takes_colors(STDOUT_FILENO)));
}

}  // namespace attnfuzz
