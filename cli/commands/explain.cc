// attnfuzz explain: shows the case of a file and how it fails.
#include "properties/explain/explain.h"

#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "cli/open/case_file.h"
#include "cli/options/help.h"
#include "cli/print/probe.h"
#include "cli/print/verdict.h"
#include "cli/terminal/terminal.h"
#include "properties/case/words.h"
#include "properties/explain/cells.h"
#include "properties/explain/clues.h"
#include "properties/explain/fault_class.h"
#include "properties/explain/html.h"
#include "properties/explain/svg.h"
#include "properties/explain/trace.h"

namespace attnfuzz {
namespace {

struct ExplainArguments : CaseArguments {
  bool ascii = false;
  std::string svg, html;  // the files for the picture and for the whole page; empty: not written
  ProbeArguments probe;
};

// The result of running the case now: the outputs of the first call that is wrong, or of the last one, and the
// oracle's expected values.
struct Seen {
  attn_plan plan = {};
  Reference reference;
  Outputs outputs;
  std::string why_not;  // why the case did not run; empty if it ran
};

Seen look(const Case& c, Target& target, const Calibration& calibration) {
  Seen seen;
  Execution e(c, target);
  seen.why_not = e.why_not();
  if (!seen.why_not.empty()) return seen;
  seen.plan = e.plan;
  for (const Call& call : c.calls) {
    seen.why_not = failure(e.run(call));
    if (!seen.why_not.empty()) return seen;
    seen.reference = e.evaluate(calibration);
    seen.outputs = e.outputs();
    if (std::ranges::any_of(compared(seen.reference, seen.outputs), &Compared::wrong)) break;
  }
  return seen;
}

// Prints text on the terminal, and keeps it for the page.
class Account {
 public:
  void operator()(const std::string& text) { print(text), of_page_ += text; }
  void apart(const std::string& on_terminal, const std::string& on_page) {
    print(on_terminal), of_page_ += on_page;
  }
  const std::string& of_page() const { return of_page_; }

 private:
  std::string of_page_;
};

void say_why(const Case& c, const std::vector<Need>& needs, const Verdict& verdict, Target& target,
             const Calibration& calibration, Account& say) {
  const Case& failing = verdict.failing ? *verdict.failing : c;
  const Trace trace = trace_values(failing, target, calibration);
  for (const std::string& line : trace.lines) say("with position-coded V: " + line + "\n");
  const Clues clues = gather_clues(c, verdict, target, calibration);
  for (const std::string& line : lines_of(clues)) say(line + "\n");
  say(guess_fault({c, verdict, needs, target.info().build_kind, clues}).text());
}

// Why a case has no picture of which query sees which key; empty if it has one.
std::string why_no_picture(const Problem& p) {
  if (!attends(p.features))
    return std::string("queries see no keys in the operation ") + operation_of(p.features).name +
           ", so there is nothing to draw";
  if (p.seq_q > 0 && p.seq_k > 0) return "";
  return "the case has no query or no key, so there is nothing to draw";
}

Exit run_explain(const ExplainArguments& arguments) {
  parse_probe(arguments.probe.place);  // refused before anything runs
  for (const std::string& file : {arguments.svg, arguments.html}) {
    if (!file.empty()) expect_room_for(file);
  }
  const OpenedCase opened = open_case(arguments);
  const Reproducer& r = opened.r;
  const std::string no_picture = why_no_picture(r.c.problem);
  const bool drawable = no_picture.empty();
  if (!arguments.svg.empty() && !drawable) throw UserError("--svg: " + no_picture + ": leave --svg out");
  Target& target = *opened.target;
  const Calibration& calibration = opened.calibration;
  ExplainOptions of_page;
  of_page.ascii = arguments.ascii;
  of_page.reproducer = &r;
  ExplainOptions of_terminal = of_page;
  of_terminal.color = takes_colors(STDOUT_FILENO);
  of_terminal.width = columns_of(STDOUT_FILENO);

  const Seen seen = look(r.c, target, calibration);
  const bool ran = seen.why_not.empty();
  const Reference* reference = ran ? &seen.reference : nullptr;
  const Outputs* got = ran ? &seen.outputs : nullptr;
  Account say;
  say.apart(explain(r.c, seen.plan, reference, got, of_terminal),
            explain(r.c, seen.plan, reference, got, of_page));
  if (!ran) say("\nno picture of the error: " + seen.why_not + "\n");
  const Verdict verdict = judge(r.c, opened.property, target, calibration);
  say("\n" + opened.identity + "\n" + verdict_text(verdict));
  if (verdict.outcome == Outcome::kFail) say_why(r.c, r.needs, verdict, target, calibration, say);
  if (arguments.probe.wanted()) {
    const ProbedCase probed = probe(r.c, verdict, target, arguments.probe);
    say("\n" + probe_text(verdict.failing ? *verdict.failing : r.c, probed));
  }
  const std::string svg = drawable ? svg_picture(r.c, seen.plan, reference, got) : "";
  if (!arguments.svg.empty()) write_file(arguments.svg, svg);
  if (!arguments.html.empty()) {
    const std::string replay = replay_line(arguments.file, command_name(target.info()), peer_name(target));
    write_file(arguments.html,
               html_page(target.info().name + ": " + describe(r.c), replay, svg, say.of_page()));
  }
  return verdict.outcome == Outcome::kFail ? kFound : kPassed;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("explain", "Describes the case of a file, with pictures of its mask and its error");
  const auto arguments = std::make_shared<ExplainArguments>();
  add_case_arguments(*command, *arguments);
  command->add_flag("--ascii", arguments->ascii, "no block characters");
  command->add_option("--svg", arguments->svg,
                      "write the pictures to this file, for a page with a light or dark theme");
  command->add_option("--html", arguments->html,
                      "write all of it as one page to this file: the pictures, the text and how to replay it");
  add_probe_option(*command, arguments->probe);
  add_footer(*command, "attnfuzz explain found/fa1-wrong-1a2b3c.attn.json --probe", kJudgedStatuses);
  command->callback([&action, arguments] { action = [arguments] { return run_explain(*arguments); }; });
}

}  // namespace attnfuzz
