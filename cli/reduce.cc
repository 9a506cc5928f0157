// attnfuzz reduce: makes the case of a file smaller.
#include <cstdio>

#include "cli/print.h"
#include "cli/session.h"
#include "properties/case/words.h"
#include "properties/explain/clues.h"

namespace attnfuzz {
namespace {

struct Arguments {
  std::string file, out;
  std::string kernel;
  double seconds = 60;
  TargetOptions target;
};

Exit run(const Arguments& arguments) {
  Reproducer r = load_reproducer(arguments.file);
  r.kernel = trusted_kernel(r, arguments.file, arguments.kernel);
  const TargetOptions options = for_file(arguments.target, r);
  const Property& property = property_named(r.property);
  std::unique_ptr<Target> target = open(library_of(r.kernel, options), options);
  std::printf("%s\n", identity_line(target->info(), options).c_str());
  const Calibration calibration = calibration_for(target->info(), options);
  const Verdict verdict = judge(r.c, property, *target, calibration);
  if (verdict.outcome != Outcome::kFail) {
    std::printf("%s\nnothing to reduce: it does not fail\n", verdict_text(verdict).c_str());
    return kHeld;
  }
  const std::string out = arguments.out.empty() ? arguments.file : arguments.out;
  const auto save = [&](const Case& c, const Verdict& v, const Reduction* reduction) {
    Reproducer smaller = reproducer_of(c, v, target->info(), *target);
    if (reduction != nullptr) {
      smaller.needs = reduction->needs;
      smaller.indifferent = reduction->indifferent;
    }
    write_file(out, encode(smaller, out));
  };
  ReduceOptions reduce_options;
  reduce_options.seconds = arguments.seconds;
  reduce_options.on_better = [&](const Case& best, const Verdict& v) { save(best, v, nullptr); };
  const Reduction reduction = reduce_failure(r.c, verdict, property, *target, calibration, reduce_options);
  save(reduction.minimal, reduction.verdict, &reduction);
  std::printf("%lld evaluations%s\n  %s\n%s", (long long)reduction.evaluations,
              reduction.complete ? "" : "; the clock ran out", describe(reduction.minimal).c_str(),
              verdict_text(reduction.verdict).c_str());
  for (const std::string& need : lines_of(reduction.needs)) std::printf("  %s\n", need.c_str());
  for (const std::string& part : reduction.indifferent) std::printf("  does not matter: %s\n", part.c_str());
  const FaultGuess guess =
      guess_fault({reduction.minimal, reduction.verdict, reduction.needs, target->info().lane,
                   gather_clues(reduction.minimal, reduction.verdict, *target, calibration)});
  if (guess.known()) std::printf("  %s\n", guess.line().c_str());
  std::printf(
      "\nreplay: %s\n",
      replay_line(out, reproducer_of(reduction.minimal, reduction.verdict, target->info(), *target).kernel)
          .c_str());
  return kFound;
}

}  // namespace

void add_reduce(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("reduce", "Makes the failing case of a file smaller");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->file, "NAME.attn.json")->required()->check(CLI::ExistingFile);
  command->add_option("--out", arguments->out, "where to write it (default: over the file)");
  command->add_option("--kernel", arguments->kernel, "another kernel than the file's, by name or path");
  command->add_option("--seconds", arguments->seconds, "wall clock")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  add_target_options(*command, arguments->target);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace attnfuzz
