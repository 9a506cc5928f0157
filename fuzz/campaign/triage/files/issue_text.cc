#include "fuzz/campaign/triage/files/issue_text.h"

#include "base/printable.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += "- " + markdown(item) + "\n";
  return text;
}

std::string row(const std::string& what, const std::string& value) {
  if (value.empty()) return "";
  return "| " + what + " | " + markdown(value) + " |\n";
}

}  // namespace

std::string how_often(const Finding& f) {
  const std::string runs =
      std::to_string(f.failed) + " of " + std::to_string(f.runs) + " runs in fresh processes";
  switch (f.repeats) {
    case Repeats::kAlways:
      return "It fails every time (" + runs + ").";
    case Repeats::kSometimes:
      return "It fails in " + runs + ".";
    case Repeats::kAfterOthers:
      return "By itself it passes (" + runs + " fail): it fails after what ran before it in the same process.";
    case Repeats::kNever:
      return "It failed once and in none of " + std::to_string(f.runs) + " later runs.";
  }
  return "";
}

std::string where_text(const Finding& f, const Reproducer& r, const IssueContext& context) {
  const TargetRecord& target = context.target;
  std::string text = "## Where\n\n| | |\n|-|-|\n";
  text += row("kernel", r.kernel) +
          row("back end, build",
              target.backend + ", " + (r.c.build_kind.empty() ? target.build_kind : r.c.build_kind));
  text += row("built from", r.build_hash) + row("compiler", r.compiler) + row("flags", r.flags);
  text += row("executor or worker built from", target.worker_build) + row("device", r.device);
  text += row("bound", "calibration '" + target.calibration + "'");
  text += row("attnfuzz", context.header.version);
  if (!context.header.sessions.empty()) {
    const Machine& machine = context.header.sessions.back().machine;
    text += row("machine", machine.cpu + ", " + std::to_string(machine.cores) + " cores, " + machine.os);
    text += row("GPUs", join(machine.gpus, ", "));
  }
  text += row("campaign", "seed " + std::to_string(context.header.seed) + ", begun " + context.header.started);
  text += row("dedupe key", f.key);
  return text;
}

std::string issue_text(const Finding& f, const Reproducer& r, const IssueContext& context) {
  const TargetRecord& target = context.target;
  const std::string file = f.name + ".attn.json";
  const std::string kernel = target.kernel.substr(target.kernel.find_last_of('/') + 1);
  std::string text = "# " + markdown(kernel + ": " + f.kind + " (" + f.property + "), " + f.minimal) + "\n\n";
  if (!f.tolerated.empty()) text += "Known: " + markdown(f.tolerated) + "\n\n";
  text += "    " + printable(f.message) + "\n";
  if (!f.shape.empty()) text += "    shape of the error: " + printable(f.shape) + "\n";
  for (const std::string& site : f.sites) text += "    " + printable(site) + "\n";
  text += "\n" + how_often(f) + "\n\n";
  text += "## The smallest case\n\n    " + printable(f.minimal) + "\n\n";
  if (!f.reduced)
    text += "The reduction ran out of time; attnfuzz reduce " + markdown(shell_word(file)) + " goes on.\n\n";
  if (!f.needs.empty()) text += list(lines_of(f.needs)) + "\n";
  if (!f.indifferent.empty()) text += "Does not matter: " + markdown(join(f.indifferent, ", ")) + ".\n\n";
  if (!f.guess.empty()) text += "A guess: " + markdown(f.guess) + ".\n\n";
  if (!f.votes.empty()) text += "Asked again: " + markdown(f.votes) + ".\n\n";
  text += "## Replay\n\n    " + replay_line(file, r.kernel, r.peer) + "\n\n";
  if (!context.trace.empty())
    text += "It needs what ran before it: the cases of " + markdown(context.trace) +
            ", oldest first, in one process.\n\n";
  if (is_plug_in(r.kernel) || is_plug_in(r.peer))
    text += "If the library lies elsewhere, give its path instead.\n\n";
  text += "It was first seen as\n\n    " + printable(f.found) + "\n\n";
  if (!f.also.empty()) text += "Seen as well: " + markdown(join(f.also, ", ")) + ".\n\n";
  return text + where_text(f, r, context);
}

}  // namespace attnfuzz
