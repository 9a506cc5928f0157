// attnfuzz reduce: makes the case of a file smaller.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/open/case_file.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/print/failure.h"
#include "cli/print/verdict.h"
#include "cli/terminal/terminal.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

struct ReduceArguments : CaseArguments {
  std::string out;
  double seconds = 60;
  bool verbose = false;
};

Exit run_reduce(const ReduceArguments& arguments) {
  const OpenedCase opened = open_case(arguments);
  const Case& c = opened.r.c;
  Target& target = *opened.target;
  say_identity(opened.identity, arguments.verbose);
  // A disagreement of two oracles shows only if both judge.
  put_oracle(target, arguments.target, opened.r.kind == "oracle");
  const Verdict verdict = judge(c, opened.property, target, opened.calibration);
  if (verdict.outcome != Outcome::kFail) {
    print(verdict_text(verdict) + "\nnothing to reduce: it does not fail\n");
    return kPassed;
  }
  const std::string out = arguments.out.empty() ? arguments.file : arguments.out;
  ReduceOptions options;
  options.seconds = arguments.seconds;
  options.on_better = [&](const Case& best, const Verdict& v) {
    write_file(out, encode(reproducer_of(best, v, nullptr, target), out));
  };
  const Reduction reduction = reduce_failure(c, verdict, opened.property, target, opened.calibration, options);
  const Reproducer smaller = reproducer_of(reduction.minimal, reduction.verdict, &reduction, target);
  write_file(out, encode(smaller, out));
  if (target.oracles) print(oracle_text(target.oracles->use()));
  FailureSections s = sections_of(reduction.minimal, reduction.verdict, reduction.needs,
                                  fmt::format("reduced in {}{}", several(reduction.evaluations, "evaluation"),
                                              reduction.complete ? "" : "; the clock ran out"));
  if (arguments.verbose && !reduction.indifferent.empty())
    s.needs.push_back("does not matter: " + join(reduction.indifferent, "; "));
  if (const FaultGuess guess = guess_of(reduction, target, opened.calibration); guess.known())
    s.likely.insert(s.likely.begin(), guess.line());
  s.replay = {fmt::format("replay: {}{}", replay_line(out, smaller.kernel, smaller.peer),
                          distrust_words(arguments.target))};
  print(failure_block(s, arguments.verbose, takes_colors(STDOUT_FILENO)));
  return kFound;
}

}  // namespace

void add_reduce(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("reduce", "Makes the failing case of a file smaller");
  const auto arguments = std::make_shared<ReduceArguments>();
  add_case_arguments(*command, *arguments);
  add_oracle_option(
      *command, arguments->target,
      "the CPU's oracle also judges what fails and one result in a hundred; for a failure of kind "
      "oracle it judges all");
  command->add_option("--out", arguments->out, "where to write it (default: over the file)");
  command->add_option("--seconds", arguments->seconds, "wall clock")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  add_verbose_flag(*command, arguments->verbose, "all lines of the failure");
  add_footer(*command, "attnfuzz reduce found/fa1-wrong-1a2b3c.attn.json --seconds 300",
             {"it does not fail", "it fails, and FILE holds the smallest case found", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return run_reduce(*arguments); }; });
}

}  // namespace attnfuzz
