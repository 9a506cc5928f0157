#include "fuzz/campaign/triage/files/sequence_files.h"

#include <limits>

#include "base/files.h"
#include "base/hash.h"
#include "base/printable.h"
#include "fuzz/campaign/triage/files/issue_text.h"
#include "properties/case/words.h"
#include "properties/sequences/run/relations.h"
#include "properties/sequences/session/story.h"

namespace attnfuzz {
namespace {

std::string several_words(const sequences::ReducedChain& chain) {
  return several(chain.steps(), "step") + " on " + several(static_cast<uint64_t>(chain.pages()), "page");
}

// The steps of one sequence of calls. `failed`: the step that failed, marked.
std::string steps_text(const sequences::Session& session, size_t failed) {
  std::string text = "    " + describe(session.setup) + "\n";
  const std::vector<std::string> lines = sequences::story(session);
  for (size_t n = 0; n < lines.size(); ++n) text += (n == failed ? "    > " : "      ") + lines[n] + "\n";
  if (session.relation != sequences::Relation::kNone)
    text +=
        std::string("    relation: ") + sequences::kRelationNames[static_cast<size_t>(session.relation)] + "\n";
  return text;
}

std::string chain_text(const sequences::ReducedChain& reduced) {
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::string text;
  for (const sequences::Session& session : reduced.chain.before)
    text += "Before, in the same process:\n\n" + steps_text(session, kNone) + "\nThen:\n\n";
  const bool known = reduced.result.verdict.outcome == Outcome::kFail && !reduced.result.second;
  return text + steps_text(reduced.chain.last, known ? reduced.result.step : kNone) + "\n";
}

std::string issue_text(const Finding& f, const sequences::ReducedChain& reduced, const IssueContext& context) {
  const TargetRecord& target = context.target;
  const std::string file = file_name_of(f);
  const std::string kernel = target.kernel.substr(target.kernel.find_last_of('/') + 1);
  const std::string call = reduced.result.call.empty() ? "sequence of calls" : reduced.result.call;
  std::string text =
      "# " + markdown(kernel + ": " + f.kind + " (" + call + "), " + several_words(reduced)) + "\n\n";
  if (!f.tolerated.empty()) text += "Known: " + markdown(f.tolerated) + "\n\n";
  text += "    " + printable(f.message) + "\n";
  for (const std::string& site : f.sites) text += "    " + printable(site) + "\n";
  text += "\n" + how_often(f) + "\n\n## The smallest sequence of calls\n\n" + chain_text(reduced);
  if (!f.reduced) text += "It is not fully reduced.\n\n";
  if (reduced.result.calls <= 1 && reduced.chain.before.empty() && f.repeats == Repeats::kAlways)
    text += "It needs only one call of the kernel, so a case may show the same bug.\n\n";
  text += "## Replay\n\n    " + sequence_replay_line(file, target) + "\n\n";
  if (is_plug_in(target.kernel)) text += "If the library lies elsewhere, give its path instead.\n\n";
  text += "It was first seen as " + markdown(f.found) + "\n\n";
  if (!f.also.empty()) text += "Seen as well: " + markdown(join(f.also, ", ")) + ".\n\n";
  Reproducer of;  // for what it says of the build
  of.kernel = target.kernel, of.build_hash = target.build;
  of.compiler = target.compiler, of.flags = target.flags;
  of.c.build_kind = target.build_kind;
  return text + where_text(f, of, context);
}

}  // namespace

std::string sequences_in_words(const sequences::Chain& chain) {
  constexpr size_t kMost = 300;
  sequences::ReducedChain sizes;
  sizes.chain = chain;
  std::string text = several_words(sizes);
  if (!chain.before.empty())
    text += ", in " + several(chain.before.size() + 1, "sequence") + " of calls, the last of which is";
  const char* between = ": ";
  for (const sequences::Step& step : chain.last.steps) {
    if (text.size() > kMost) return text + "; ...";
    text += between + describe(step);
    between = "; ";
  }
  return text;
}

std::string sequences_name(const std::string& folder, const Finding& finding) {
  std::string name = folder + "-calls-" + finding.kind.substr(0, 80);
  for (char& c : name) {
    const bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!keep) c = '-';
  }
  std::string digits = hex(text_hash(finding.key));
  digits.insert(0, 16 - std::min<size_t>(16, digits.size()), '0');
  return name + "-" + digits.substr(0, 6);
}

std::string sequence_replay_line(const std::string& file, const TargetRecord& target) {
  return "attnfuzz sequence --replay " + shell_word(file) + " " + shell_word(target.kernel) +
         (target.backend == "cuda" ? " --backend cuda" : "") +
         (target.build_kind.empty() || target.build_kind == "plain"
              ? ""
              : " --build " + shell_word(target.build_kind));
}

void write_sequence_files(const std::string& folder, const Finding& finding,
                          const sequences::ReducedChain& reduced, const std::string& text,
                          const CampaignHeader& header, const TargetRecord& target) {
  write_file(folder + "/" + file_name_of(finding), text);
  write_file(folder + "/" + finding.name + ".md", issue_text(finding, reduced, {header, target, ""}));
}

}  // namespace attnfuzz
