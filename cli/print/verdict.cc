#include "cli/print/verdict.h"

#include <fmt/format.h>

#include <cmath>

#include "base/printable.h"
#include "fuzz/check/counts/kernel_path.h"
#include "properties/case/words.h"
#include "properties/explain/clues.h"
#include "properties/judge/judge.h"

namespace attnfuzz {

std::string assumed_line(const std::vector<Assumption>& assumptions) {
  std::string text;
  for (const Assumption& one : assumptions)
    text += (text.empty() ? "  assumed, as plan() leaves it open: " : "; ") + printable(one.brief());
  return text.empty() ? text : text + "\n";
}

std::string oracle_text(const OracleUse& use) {
  std::string text =
      fmt::format("  oracle on {}: {} results, {} of them by the CPU's too; by the CPU's alone {}\n",
                  printable(use.device), use.fast, use.both, use.left_in_all());
  for (const auto& [reason, n] : use.left)
    text += fmt::format("    left to the CPU's {} x {}\n", n, printable(reason));
  return text;
}

std::string verdict_sentence(const Verdict& verdict) {
  static constexpr const char* kOutcomes[] = {"passed", "refused", "not judged", "FAIL"};
  const std::string kind = verdict.kind == Kind::kNone ? "" : std::string(", ") + to_string(verdict.kind);
  return fmt::format("{} ({}{}){}", kOutcomes[static_cast<int>(verdict.outcome)], verdict.property, kind,
                     verdict.message.empty() ? "" : ": " + printable_lines(verdict.message));
}

std::vector<std::string> verdict_details(const Verdict& verdict) {
  std::vector<std::string> lines;
  if (!verdict.shapes.empty()) lines.push_back("shape of the error: " + printable(text_of(verdict.shapes)));
  if (verdict.where) {
    const Where& w = *verdict.where;
    // If no element is wrong, the place is the element beside memory that was written.
    const bool key = of_keys(spec_of(w.tensor)), state = spec_of(w.tensor).role == Role::kState;
    const char* const which = w.bad > 0 ? "first at" : "next to";
    if (state)
      lines.push_back(
          fmt::format("{} {}(store={}, h={}, slot={}, d={})", which, name_of(w.tensor), w.b, w.h, w.q, w.d));
    else
      lines.push_back(fmt::format("{} {}(b={}, h={}, {}={}, d={}), {} tile {}", which, name_of(w.tensor), w.b,
                                  w.h, key ? "k" : "q", w.q, w.d, key ? "key" : "query", w.tile_q));
    if (w.bad > 0 && is_integer(spec_of(w.tensor)) && std::isnan(w.expected))
      lines.back() = fmt::format("first at {}(b={}, h={}, q={}), query tile {}; {} of {} rows are wrong",
                                 name_of(w.tensor), w.b, w.h, w.q, w.tile_q, w.bad, w.of);
    else if (w.bad > 0)
      lines.back() += fmt::format(": got {}, expected {} +- {:.3g}; {} of {} elements are outside",
                                  digits(w.got), digits(w.expected), w.bound, w.bad, w.of);
  }
  if (verdict.fault) {
    const Fault& f = *verdict.fault;
    const std::string at = f.file.empty() ? "" : fmt::format(" at {}:{}", printable(f.file), f.line);
    lines.push_back(fmt::format("fault in block ({}) thread ({}){}: {}", fmt::join(f.block, ","),
                                fmt::join(f.thread, ","), at, printable_lines(f.message)));
  }
  if (verdict.kind == Kind::kBadPlan)
    lines.emplace_back(
        "what to do: plan() fills in every field of the attn_plan it is given; attention.h says what each "
        "means");
  if (verdict.plan.size > 0) {
    const attn_plan& plan = verdict.plan;
    lines.push_back(fmt::format("plan: {}, {} split(s), tiles {} x {}", path_of(plan), plan.num_splits,
                                plan.tile_q, plan.tile_k));
  }
  if (verdict.sampled < verdict.rows)
    lines.push_back(fmt::format("{} of {} rows were compared with the oracle", verdict.sampled, verdict.rows));
  if (verdict.warning && verdict.outcome != Outcome::kFail)
    lines.push_back(fmt::format("statistical warning ({}): {}", verdict.warning->sign,
                                printable(verdict.warning->message)));
  if (verdict.declared)
    lines.push_back(
        fmt::format("of its bound {:.0f} % is what the plan declares or leaves open", 100 * *verdict.declared));
  return lines;
}

std::string verdict_text(const Verdict& verdict) {
  std::string text = verdict_sentence(verdict) + "\n";
  if (verdict.exploit != Exploit::kNone)
    text += fmt::format("  it looks like: {}\n", to_string(verdict.exploit));
  for (const std::string& line : verdict_details(verdict)) text += "  " + line + "\n";
  return text + assumed_line(verdict.assumptions);
}

FaultGuess guess_of(const Reduction& reduction, Target& target, const Calibration& calibration) {
  return guess_fault({reduction.minimal, reduction.verdict, reduction.needs, target.info().build_kind,
                      gather_clues(reduction.minimal, reduction.verdict, target, calibration)});
}

std::string reduction_text(const Reduction& reduction, const FaultGuess& guess) {
  std::string text = "  " + describe(reduction.minimal) + "\n" + verdict_text(reduction.verdict);
  for (const std::string& need : lines_of(reduction.needs)) text += "  " + need + "\n";
  if (!reduction.indifferent.empty()) text += "  does not matter: " + join(reduction.indifferent, "; ") + "\n";
  if (guess.known()) text += "  " + guess.line() + "\n";
  return text;
}

Reproducer reproducer_of(const Case& c, const Verdict& verdict, const Reduction* reduction, Target& target) {
  Reproducer r = reproducer_of(c, verdict, target.info(), target);
  if (reduction != nullptr) {
    r.needs = reduction->needs;
    r.indifferent = reduction->indifferent;
  }
  return r;
}

}  // namespace attnfuzz
