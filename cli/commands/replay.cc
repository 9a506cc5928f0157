// attnfuzz replay: runs the case of a file again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/printable.h"
#include "cli/open/case_file.h"
#include "cli/open/compute_sanitizer.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/print/failure.h"
#include "cli/print/probe.h"
#include "cli/print/verdict.h"
#include "cli/terminal/results_apart.h"
#include "cli/terminal/terminal.h"
#include "properties/case/words.h"
#include "properties/explain/first_bits.h"

namespace attnfuzz {
namespace {

struct ReplayArguments {
  std::vector<std::string> files;
  std::string kernel;    // instead of the file's
  std::string property;  // instead of the file's
  TargetOptions target;
  ProbeArguments probe;
  std::string json;
  bool verbose = false;
};

// The target of the last file, kept for the next file if it has the same kernel, back end and build.
struct Opened {
  std::string key;
  std::unique_ptr<Target> target;
};

constexpr int kRuns = 3;  // runs of a case that passes although its file says that it fails

// True if a failure of this kind shows in the output values. In a case that is not judged, these may have
// nearly any value.
bool shown_by_numbers(const std::string& kind) {
  return kind == kWarningKind || std::ranges::any_of(std::array{Kind::kWrong, Kind::kNonFinite, Kind::kRelation,
                                                                Kind::kDirty, Kind::kBits},
                                                     [&](Kind of) { return kind == to_string(of); });
}

std::optional<Verdict> fails_again(const Case& c, const Property& property, Target& target,
                                   const Calibration& calibration) {
  for (int run = 1; run < kRuns; ++run) {
    target.renew();
    Verdict verdict = judge(c, property, target, calibration);
    if (verdict.outcome == Outcome::kFail) return verdict;
  }
  return std::nullopt;
}

// Opens the file's kernel, unless the file before it had the same one.
Target& target_of(const Reproducer& r, const TargetOptions& options, bool verbose, Opened& opened) {
  const std::string key =
      fmt::format("{} {} {} {}", r.kernel, options.backend, options.build_kind, options.peer);
  if (opened.key == key) return *opened.target;
  opened.target.reset();
  opened.target = open(library_of(r.kernel, options), options);
  // A replay is a confirmation, so both oracles judge.
  put_oracle(*opened.target, options, true);
  opened.key = key;
  say_identity(identity_line(opened.target->info(), options), verbose);
  return *opened.target;
}

void expect_bytes_of(const Reproducer& r, const std::string& path, Target& target) {
  const auto digests = LaidOut(r.c, target.arena()).digests();
  for (int i = 0; i < kTensorCount; ++i) {
    if (r.digests[i] != 0 && r.digests[i] != digests[i])
      throw UserError(path + ": the bytes of " + kTensorNames[i] +
                      " are not those the file was made with; it comes from another version of the fills");
  }
}

// Like judge(), but refuses a case that would run as another operation.
Verdict judge_as_it_is(const Case& c, const Property& property, Target& target,
                       const Calibration& calibration) {
  const std::string why = other_operation(c, property, target);
  if (why.empty()) return judge(c, property, target, calibration);
  Verdict refused;
  refused.property = property.name;
  refused.outcome = Outcome::kRefused;
  refused.message = why;
  return refused;
}

// Prints a failure in the order of failure.h; for any other verdict, the case and one sentence.
void tell(const Reproducer& r, const std::string& path, const Verdict& verdict, bool verbose) {
  if (verdict.outcome == Outcome::kFail) {
    print(failure_block(sections_of(r.c, verdict, r.needs, "replayed from " + path), verbose,
                        takes_colors(STDOUT_FILENO)) +
          (verbose ? assumed_line(verdict.assumptions) : ""));
    return;
  }
  std::string text = verdict_sentence(verdict) + "\n";
  if (verdict.warning)
    text += fmt::format("  statistical warning ({}): {}\n", verdict.warning->sign,
                        printable(verdict.warning->message));
  print(path + ": " + describe(r.c) + "\n  " + (verbose ? verdict_text(verdict) : text));
}

// Explains a verdict that differs from the file's. If a failing case passes now, it is run again.
// If it then fails, it is flaky, and `verdict` becomes that failure. Otherwise it is fixed.
void compare_with_file(const Reproducer& r, const std::string& path, const Property& property, Target& target,
                       const Calibration& calibration, bool verbose, Verdict& verdict) {
  if (r.kind == kWarningKind) {
    if (verdict.outcome == Outcome::kPass && !verdict.warning)
      print("  its file has a statistical warning: there is none any more\n");
    return;
  }
  if (r.kind.empty() || verdict.outcome == Outcome::kFail || verdict.outcome == Outcome::kRefused) return;
  if (const auto again = fails_again(r.c, property, target, calibration)) {
    verdict = *again;
    print("  FLAKY: it passed, and then failed in a fresh worker:\n");
    tell(r, path, verdict, verbose);
  } else {
    const bool judged = verdict.outcome != Outcome::kNotJudged;
    print(fmt::format("  its file says '{}': {} in {} runs, all but the first in fresh workers\n",
                      printable(r.kind), judged ? "it passed" : "this did not happen", kRuns));
  }
}

Exit replay(const std::string& path, const ReplayArguments& arguments, Opened& opened, std::string* json) {
  Reproducer r = load_reproducer(path);
  r.kernel = trusted_kernel(r, path, arguments.kernel);
  if (!arguments.property.empty()) r.property = arguments.property;
  TargetOptions options = for_file(arguments.target, r);
  options.peer = trusted_peer(r, path, options.peer);
  const Property& property = property_named(r.property);
  Target& target = target_of(r, options, arguments.verbose, opened);
  print(expect_peer(target, property));
  const KernelInfo& kernel = target.info();
  if (arguments.verbose && !r.build_hash.empty() && r.build_hash != kernel.build.hash)
    print("  note: the file was made with build " + r.build_hash.substr(0, 12) + " of this kernel\n");
  print(fit_variant(r, path, kernel));
  expect_bytes_of(r, path, target);
  const Calibration calibration = calibration_for(kernel, options);
  Verdict verdict = judge_as_it_is(r.c, property, target, calibration);
  tell_first_bits(r.c, target, verdict);
  tell(r, path, verdict, arguments.verbose);
  // If the file tells of a crash, its absence is a result even if the numbers cannot be judged. If the file tells
  // of no failure, a case that is not judged is no pass.
  const bool not_judged =
      verdict.outcome == Outcome::kNotJudged && (r.kind.empty() || shown_by_numbers(r.kind));
  if (not_judged && r.kind.empty()) {
    print("  not judged: by this plan's bounds its numbers may be nearly anything, so this is no pass\n");
  } else if (not_judged) {
    print("  not judged: its file says '" + printable(r.kind) +
          "', and by this plan's bounds its numbers may be nearly anything, so they do not show whether it is "
          "mended\n");
  } else {
    compare_with_file(r, path, property, target, calibration, arguments.verbose, verdict);
  }
  if (arguments.probe.wanted()) {
    const Case& probed_case = verdict.failing ? *verdict.failing : r.c;
    const ProbedCase probed = probe(r.c, verdict, target, arguments.probe);
    emit("\n{}", probe_text(probed_case, probed));
    *json += probe_json(probed_case, probed);
  }
  if (target.oracles) print(oracle_text(target.oracles->use()));
  if (verdict.outcome == Outcome::kRefused)
    print(
        "  not judged: a refusal is no pass; --kernel names another kernel, and limits says what this one "
        "takes\n");
  std::fflush(stdout);
  const bool found = verdict.outcome == Outcome::kFail || verdict.outcome == Outcome::kRefused;
  return found || not_judged ? kFound : kPassed;
}

// Runs each file in its own process, because compute-sanitizer watches whole processes.
Exit replay_all_under(const ReplayArguments& arguments) {
  if (arguments.target.backend == "cpu")
    throw UserError("the build " + arguments.target.build_kind + " runs only on a GPU: leave --backend out");
  if (arguments.target.oracle != "cpu")
    throw UserError("--oracle: the build " + arguments.target.build_kind +
                    " is judged only by the CPU's oracle; leave it out");
  std::vector<std::string> further = {"--watchdog", "300"};
  if (!arguments.kernel.empty()) further.insert(further.end(), {"--kernel", arguments.kernel});
  if (!arguments.property.empty()) further.insert(further.end(), {"--property", arguments.property});
  if (arguments.target.allow_stale) further.push_back("--allow-stale");
  Exit status = kPassed;
  for (const std::string& file : arguments.files) {
    trusted_kernel(load_reproducer(file), file, arguments.kernel);
    const Exit one = replay_under(arguments.target.build_kind, file, further);
    if (one != kPassed) status = one;
  }
  return status;
}

Exit run_replay(const ReplayArguments& arguments) {
  parse_probe(arguments.probe.place);  // refused before anything runs
  if (is_compute_sanitizer(arguments.target.build_kind)) return replay_all_under(arguments);
  Opened opened;
  Exit status = kPassed;
  std::optional<ResultsApart> apart(std::in_place, std::initializer_list<std::string>{arguments.json});
  std::string json;
  for (const std::string& file : arguments.files) {
    if (replay(file, arguments, opened, &json) != kPassed) status = kFound;
  }
  apart.reset();
  if (!arguments.json.empty()) write_to(arguments.json, json);
  return status;
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("replay", "Runs the cases of reproducer files again");
  const auto arguments = std::make_shared<ReplayArguments>();
  command->add_option("file", arguments->files, "NAME.attn.json")->required()->check(is_case_file());
  add_kernel_option(*command, arguments->kernel);
  command->add_option("--property", arguments->property, "another property than the file's")
      ->check(is_property());
  add_probe_option(*command, arguments->probe);
  command
      ->add_option("--json", arguments->json,
                   "write the probes as JSON lines to this file, - for standard output")
      ->needs(arguments->probe.option);
  add_verbose_flag(*command, arguments->verbose, "all lines of a failure");
  add_target_options(*command, arguments->target);
  add_peer_option(*command, arguments->target);
  add_oracle_option(*command, arguments->target, "the CPU's oracle judges all results too");
  add_footer(*command, "attnfuzz replay found/fa1-wrong-1a2b3c.attn.json --build asan",
             {"all of them passed",
              "one failed, once in three runs at least, was refused, or could not be judged", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return run_replay(*arguments); }; });
}

}  // namespace attnfuzz
