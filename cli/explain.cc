// attnfuzz explain: what the case of a file is, and how it goes wrong.
#include "properties/explain/explain.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/print.h"
#include "cli/probe.h"
#include "cli/session.h"
#include "properties/explain/clues.h"
#include "properties/explain/fault_class.h"
#include "properties/explain/trace.h"

namespace attnfuzz {
namespace {

struct Arguments {
  std::string file, kernel;
  bool ascii = false;
  TargetOptions target;
  ProbeArguments probe;
};

int terminal_width() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 100;
  return std::clamp<int>(size.ws_col, 40, 200);
}

// What the kernel makes of the case now: O of its first call, beside the oracle.
struct Seen {
  attn_plan plan = {};
  Reference reference;
  std::vector<float> o;
  std::string why_not;  // empty: it ran
};

Seen look(const Case& c, Target& target, const Calibration& calibration) {
  Seen seen;
  Execution e(c, target);
  seen.why_not = e.why_not();
  if (!seen.why_not.empty()) return seen;
  seen.plan = e.plan;
  seen.why_not = failure(e.run(c.calls.front()));
  if (!seen.why_not.empty()) return seen;
  seen.reference = e.evaluate(calibration);
  seen.o = e.laid.read(TensorId::kO);
  return seen;
}

Exit run(const Arguments& arguments) {
  parse_probe(arguments.probe.place);  // refused before anything runs
  Reproducer r = load_reproducer(arguments.file);
  r.kernel = trusted_kernel(r, arguments.file, arguments.kernel);
  const TargetOptions options = for_file(arguments.target, r);
  ExplainOptions explain_options;
  explain_options.color = isatty(STDOUT_FILENO) != 0;
  explain_options.width = terminal_width();
  explain_options.ascii = arguments.ascii;
  explain_options.reproducer = &r;

  std::unique_ptr<Target> target = open(library_of(r.kernel, options), options);
  const Calibration calibration = calibration_for(target->info(), options);
  const Seen seen = look(r.c, *target, calibration);
  const bool ran = seen.why_not.empty();
  std::printf("%s",
              explain(r.c, seen.plan, ran ? &seen.reference : nullptr, ran ? &seen.o : nullptr, explain_options)
                  .c_str());
  if (!ran) std::printf("\nno picture of the error: %s\n", seen.why_not.c_str());
  const Verdict verdict = judge(r.c, property_named(r.property), *target, calibration);
  std::printf("\n%s\n%s", identity_line(target->info(), options).c_str(), verdict_text(verdict).c_str());
  if (verdict.outcome == Outcome::kFail) {
    const Case& failing = verdict.failing ? *verdict.failing : r.c;
    const Trace trace = trace_values(failing, *target, calibration);
    for (const std::string& line : trace.lines) std::printf("with position-coded V: %s\n", line.c_str());
    const Clues clues = gather_clues(r.c, verdict, *target, calibration);
    for (const std::string& line : lines_of(clues)) std::printf("%s\n", line.c_str());
    std::printf("%s", guess_fault({r.c, verdict, r.needs, target->info().lane, clues}).text().c_str());
  }
  if (arguments.probe.wanted()) {
    const ProbedCase probed = probe(r.c, verdict, *target, arguments.probe);
    std::printf("\n%s", probe_text(verdict.failing ? *verdict.failing : r.c, probed).c_str());
  }
  return verdict.outcome == Outcome::kFail ? kFound : kHeld;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("explain", "Says what the case of a file is, with pictures of masks and errors");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("file", arguments->file, "NAME.attn.json")->required()->check(CLI::ExistingFile);
  command->add_option("--kernel", arguments->kernel, "another kernel than the file's, by name or path");
  command->add_flag("--ascii", arguments->ascii, "no block characters");
  add_probe_option(*command, arguments->probe);
  add_target_options(*command, arguments->target);
  command->callback([&action, arguments] { action = [arguments] { return run(*arguments); }; });
}

}  // namespace attnfuzz
