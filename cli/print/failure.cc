#include "cli/print/failure.h"

#include <fmt/format.h>

#include <sstream>

#include "base/printable.h"
#include "cli/print/verdict.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

using Lines = std::vector<std::string>;

// The most lines of each section; their sum is kMostFailureLines.
constexpr size_t kWrong = 4, kReduced = 2, kNeeds = 6, kWhere = 7, kLikely = 4, kReplay = 2;
static_assert(kWrong + kReduced + kNeeds + kWhere + kLikely + kReplay == kMostFailureLines);

// A message of a sanitizer or of Python has several lines in one string.
Lines single_lines(const Lines& section) {
  Lines lines;
  for (const std::string& text : section) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  return lines;
}

std::string section_text(const Lines& section, size_t most, const char* indent) {
  const Lines lines = single_lines(section);
  const size_t shown = lines.size() > most ? most - 1 : lines.size();
  std::string text;
  for (size_t n = 0; n < shown; ++n) text += (n == 0 ? indent : "  ") + lines[n] + "\n";
  if (shown < lines.size())
    text += fmt::format("{}... {} more lines: -v prints them\n", indent, lines.size() - shown);
  return text;
}

void append(Lines& to, const Lines& from) { to.insert(to.end(), from.begin(), from.end()); }

// "found in case 13 of seed 1, reduced in 1587 evaluations"
std::string found_line(const Failure& failure, const Filed& filed, uint64_t seed) {
  if (!failure.file.empty()) return "found before, and still there: " + printable(failure.file);
  std::string line = fmt::format("found in case {} of seed {}", failure.index, seed);
  if (!filed.reduction) return line + "; not reduced";
  line += ", reduced in " + several(filed.reduction->evaluations, "evaluation");
  if (!filed.build_kind.empty()) line += " in the build " + filed.build_kind;
  return line + (filed.reduction->complete ? "" : " (the clock ran out: attnfuzz reduce FILE goes on)");
}

}  // namespace

std::string failure_block(const FailureSections& sections, bool all, bool color) {
  const auto text = [&](const Lines& section, size_t most, const char* indent = "  ") {
    return section_text(section, all ? SIZE_MAX : most, indent);
  };
  std::string wrong = text(sections.wrong, kWrong, "");
  if (color && wrong.starts_with("FAIL")) wrong = "\x1b[1;31mFAIL\x1b[0m" + wrong.substr(4);
  return wrong + text(sections.reduced, kReduced) + text(sections.needs, kNeeds) +
         text(sections.where, kWhere) + text(sections.likely, kLikely) + text(sections.replay, kReplay, "");
}

FailureSections sections_of(const Case& c, const Verdict& verdict, const std::vector<Need>& needs,
                            const std::string& where) {
  FailureSections s = {.wrong = {verdict_sentence(verdict)},
                       .reduced = {describe(c)},
                       .needs = lines_of(needs),
                       .where = {where},
                       .likely = {},
                       .replay = {}};
  append(s.where, verdict_details(verdict));
  if (verdict.exploit != Exploit::kNone)
    s.likely.push_back(fmt::format("it looks like: {}", to_string(verdict.exploit)));
  return s;
}

FailureSections sections_of(const Failure& failure, const Filed& filed, uint64_t seed, bool all) {
  const Reduction* const reduction = filed.reduction ? &*filed.reduction : nullptr;
  Verdict verdict = reduction ? reduction->verdict : failure.verdict;
  verdict.exploit = failure.verdict.exploit;
  FailureSections s =
      sections_of(reduction ? reduction->minimal : failure.c, verdict,
                  reduction ? reduction->needs : std::vector<Need>{}, found_line(failure, filed, seed));
  append(s.where, filed.how);
  if (!filed.vote.empty()) s.where.push_back(filed.vote);
  if (filed.guess.known()) s.likely.insert(s.likely.begin(), filed.guess.line());
  append(s.likely, filed.statistics);
  if (!filed.replay.empty()) s.replay = {"replay: " + filed.replay};
  if (!reduction || !all) return s;
  if (!reduction->indifferent.empty())
    s.needs.push_back("does not matter: " + join(reduction->indifferent, "; "));
  s.where.push_back("before it was reduced: " + verdict_sentence(failure.verdict));
  append(s.where, verdict_details(failure.verdict));
  s.where.push_back("case: " + describe(failure.c));
  return s;
}

std::string failure_text(const Failure& failure, const Filed* filed) {
  if (filed == nullptr) return "case: " + describe(failure.c) + "\n";
  std::string text = filed->reduction ? "reduced case:\n" + reduction_text(*filed->reduction, filed->guess)
                                      : "case: " + describe(failure.c) + "\n";
  text += "reproducer: " + filed->reproducer + "\n";
  if (!filed->replay.empty()) text += "replay: " + filed->replay + "\n";
  return text;
}

}  // namespace attnfuzz
