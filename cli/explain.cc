// attnfuzz explain: what the case of a file is, and how it goes wrong.
#include "properties/explain/explain.h"

#include <unistd.h>

#include <cstdio>

#include "cli/case_file.h"
#include "cli/help.h"
#include "cli/print.h"
#include "cli/probe.h"
#include "cli/terminal.h"
#include "properties/explain/clues.h"
#include "properties/explain/fault_class.h"
#include "properties/explain/svg.h"
#include "properties/explain/trace.h"
#include "text/files.h"

namespace attnfuzz {
namespace {

struct ExplainArguments : CaseArguments {
  bool ascii = false;
  std::string svg;  // a file to write the picture to; empty: none
  ProbeArguments probe;
};

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

Exit run_explain(const ExplainArguments& arguments) {
  parse_probe(arguments.probe.place);  // refused before anything runs
  if (!arguments.svg.empty()) expect_room_for(arguments.svg);
  const OpenedCase opened = open_case(arguments);
  const Reproducer& r = opened.r;
  if (!arguments.svg.empty() && (r.c.problem.seq_q == 0 || r.c.problem.seq_k == 0))
    throw UserError("--svg: the case has no query or no key, so there is nothing to draw: leave --svg out");
  Target& target = *opened.target;
  const Calibration& calibration = opened.calibration;
  ExplainOptions explain_options;
  explain_options.color = takes_colors(STDOUT_FILENO);
  explain_options.width = columns_of(STDOUT_FILENO);
  explain_options.ascii = arguments.ascii;
  explain_options.reproducer = &r;

  const Seen seen = look(r.c, target, calibration);
  const bool ran = seen.why_not.empty();
  print(explain(r.c, seen.plan, ran ? &seen.reference : nullptr, ran ? &seen.o : nullptr, explain_options));
  if (!ran) print("\nno picture of the error: " + seen.why_not + "\n");
  if (!arguments.svg.empty()) {
    write_file(arguments.svg,
               svg_picture(r.c, seen.plan, ran ? &seen.reference : nullptr, ran ? &seen.o : nullptr));
  }
  const Verdict verdict = judge(r.c, opened.property, target, calibration);
  print("\n" + opened.identity + "\n" + verdict_text(verdict));
  if (verdict.outcome == Outcome::kFail) {
    const Case& failing = verdict.failing ? *verdict.failing : r.c;
    const Trace trace = trace_values(failing, target, calibration);
    for (const std::string& line : trace.lines) print("with position-coded V: " + line + "\n");
    const Clues clues = gather_clues(r.c, verdict, target, calibration);
    for (const std::string& line : lines_of(clues)) print(line + "\n");
    print(guess_fault({r.c, verdict, r.needs, target.info().lane, clues}).text());
  }
  if (arguments.probe.wanted()) {
    const ProbedCase probed = probe(r.c, verdict, target, arguments.probe);
    std::printf("\n%s", probe_text(verdict.failing ? *verdict.failing : r.c, probed).c_str());
  }
  return verdict.outcome == Outcome::kFail ? kFound : kHeld;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("explain", "Says what the case of a file is, with pictures of masks and errors");
  const auto arguments = std::make_shared<ExplainArguments>();
  add_case_arguments(*command, *arguments);
  command->add_flag("--ascii", arguments->ascii, "no block characters");
  command->add_option("--svg", arguments->svg,
                      "write the pictures to this file, for a page with a light or dark theme");
  add_probe_option(*command, arguments->probe);
  add_footer(*command, "attnfuzz explain found/fa1-wrong-1a2b3c.attn.json --probe", kJudgedStatuses);
  command->callback([&action, arguments] { action = [arguments] { return run_explain(*arguments); }; });
}

}  // namespace attnfuzz
