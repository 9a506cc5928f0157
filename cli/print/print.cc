#include "cli/print/print.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/json.h"
#include "base/printable.h"
#include "fuzz/check/kernel_path.h"
#include "fuzz/check/records.h"
#include "fuzz/host/confinement.h"
#include "fuzz/report/report.h"
#include "properties/case/words.h"
#include "properties/explain/clues.h"
#include "properties/explain/fault_class.h"
#include "properties/judge/judge.h"

namespace attnfuzz {

std::string assumed_line(const std::vector<Assumption>& assumptions) {
  std::string text;
  for (const Assumption& one : assumptions)
    text += (text.empty() ? "  assumed, as plan() leaves it open: " : "; ") + printable(one.brief());
  return text.empty() ? text : text + "\n";
}
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  char buffer[512];
  std::vsnprintf(buffer, sizeof buffer, pattern, args);
  va_end(args);
  return buffer;
}

std::string ratio(double value, uint64_t count) {
  if (count == 0) return "-";
  return std::isfinite(value) ? format("%.3g", value) : "inf";
}

std::string row(const char* name, const PropertyStats& n) {
  return format("  %-16s %8llu %8llu %8llu %8llu %6llu %9s %8s\n", name, (unsigned long long)n.cases,
                (unsigned long long)n.passed, (unsigned long long)n.rejected,
                (unsigned long long)n.uninformative, (unsigned long long)n.failed,
                ratio(n.ratios.worst(), n.ratios.count()).c_str(),
                ratio(n.ratios.median(), n.ratios.count()).c_str());
}

std::string path_row(const std::string& path, const PropertyStats& n) {
  return format("  %-24s %8llu %8llu %8llu %6llu %9s %8s\n", path.c_str(), (unsigned long long)n.cases,
                (unsigned long long)n.passed, (unsigned long long)n.uninformative, (unsigned long long)n.failed,
                ratio(n.ratios.worst(), n.ratios.count()).c_str(),
                ratio(n.ratios.median(), n.ratios.count()).c_str());
}

PropertyStats total_of(const CheckResult& result) {
  PropertyStats total;
  for (const auto& [name, n] : result.properties) total.merge(n);
  return total;
}

}  // namespace

std::string properties_table(const CheckResult& result) {
  std::string text = format("  %-16s %8s %8s %8s %8s %6s %9s %8s\n", "property", "cases", "passed", "rejected",
                            "uninform", "failed", "worst e/b", "median");
  for (const Property* property : all_properties()) {
    const auto it = result.properties.find(property->name);
    if (it != result.properties.end()) text += row(property->name, it->second);
  }
  text += row("all", total_of(result));
  // The names of paths are longer: no room is left for cases rejected.
  if (!result.paths.empty()) {
    text += format("  %-24s %8s %8s %8s %6s %9s %8s\n", "path through the kernel", "cases", "passed",
                   "uninform", "failed", "worst e/b", "median");
  }
  for (const auto& [path, n] : result.paths) text += path_row(path, n);
  return text;
}

std::string check_notes(const CheckResult& result, const Refused& refused,
                        const std::optional<Covered>& covered, const std::string& part) {
  std::string text = result.features.table();
  if (covered) text += attnfuzz::text(*covered);
  std::vector<std::string> broken;
  if (part.empty()) broken = result.features.broken_floors(refused, Classification::kByChance);
  if (!part.empty()) {
    text += "  floors of the draw: not judged, for " + part + " alone were drawn\n";
  } else if (result.features.cases < 500) {
    text += "  floors of the draw: not judged below 500 cases\n";
  } else if (broken.empty()) {
    text += "  floors of the draw: kept\n";
  }
  for (const std::string& floor : broken) text += "  floor of the draw BROKEN: " + floor + "\n";
  if (part.empty()) {
    for (const std::string& floor : result.features.eased_floors(refused)) text += "    " + floor + "\n";
  }
  text += format("  rows judged %llu, of them dead %llu, uninformative %llu, unconstrained %llu\n",
                 (unsigned long long)result.rows, (unsigned long long)result.dead_rows,
                 (unsigned long long)result.uninformative_rows, (unsigned long long)result.unconstrained_rows);
  std::vector<std::pair<uint64_t, std::string>> reasons;
  for (const auto& [reason, n] : result.rejections) reasons.emplace_back(n, reason);
  std::ranges::sort(reasons, std::greater<>());
  for (size_t i = 0; i < reasons.size() && i < 5; ++i) {
    text += format("  rejected %llu x ", (unsigned long long)reasons[i].first) + printable(reasons[i].second) +
            "\n";
  }
  text += assumed_line(result.assumptions);
  if (!result.oracle.device.empty()) text += oracle_text(result.oracle);
  if (const BatchUse& use = result.batch; use.cleared + use.doubted > 0) text += "  " + words(use) + "\n";
  for (const auto& [lane, n] : result.lanes)
    text += format("  run in the lane %s: %llu of the cases\n", lane.c_str(), (unsigned long long)n);
  if (!result.warning_counts.empty()) {
    std::string signs;
    for (const auto& [sign, n] : result.warning_counts)
      signs += (signs.empty() ? "" : ", ") + sign + " " + std::to_string(n);
    text += "  statistical warnings, no failures: cases by sign: " + signs + "\n";
  }
  if (result.declared_of > 0) {
    text +=
        format("  of the bound %.0f %% is what the kernel declares or leaves open, in the mean of %llu cases\n",
               100 * result.declared / static_cast<double>(result.declared_of),
               (unsigned long long)result.declared_of);
  }
  const StageSeconds& spent = result.stages;
  if (const double percent = spent.sum() / 100; percent > 0) {
    text +=
        format("  time: lay out %.0f %%, kernel %.0f %%, oracle %.0f %%, judge %.0f %%\n",
               spent.lay_out / percent, spent.kernel / percent, spent.oracle / percent, spent.judge / percent);
  }
  text += format("  %llu cases in %.1f s: %.0f cases/s; stream digest %s\n", (unsigned long long)result.cases(),
                 result.seconds, result.cases() / std::max(result.seconds, 1e-9), result.digest.hex().c_str());
  return text;
}

std::string oracle_text(const OracleUse& use) {
  std::string text =
      format("  oracle on %s: %llu results, %llu of them by the CPU's too; by the CPU's alone %llu\n",
             printable(use.device).c_str(), (unsigned long long)use.fast, (unsigned long long)use.both,
             (unsigned long long)use.left_in_all());
  for (const auto& [reason, n] : use.left)
    text += format("    left to the CPU's %llu x ", (unsigned long long)n) + printable(reason) + "\n";
  return text;
}

std::string verdict_text(const Verdict& verdict) {
  static constexpr const char* kOutcomes[] = {"pass", "rejected", "uninformative", "FAIL"};
  std::string text = format("%s (%s", kOutcomes[static_cast<int>(verdict.outcome)], verdict.property.c_str());
  if (verdict.kind != Kind::kNone) text += std::string(", ") + to_string(verdict.kind);
  text += "): " + (verdict.message.empty() ? "holds" : printable_lines(verdict.message)) + "\n";
  if (verdict.exploit != Exploit::kNone)
    text += std::string("  it looks like: ") + to_string(verdict.exploit) + "\n";
  if (!verdict.shapes.empty()) text += "  shape of the error: " + printable(text_of(verdict.shapes)) + "\n";
  if (verdict.where) {
    const Where& w = *verdict.where;
    // Beside memory that was written, where no element was compared.
    text += format("  %s %s(b=%lld, h=%lld, q=%lld, d=%lld), query tile %lld",
                   w.bad > 0 ? "first at" : "next to", name_of(w.tensor), (long long)w.b, (long long)w.h,
                   (long long)w.q, (long long)w.d, (long long)w.tile_q);
    if (w.bad > 0)
      text += format(": got %s, expected %s +- %.3g; %lld of %lld elements are outside", digits(w.got).c_str(),
                     digits(w.expected).c_str(), w.bound, (long long)w.bad, (long long)w.of);
    text += "\n";
  }
  if (verdict.fault) {
    const Fault& f = *verdict.fault;
    text += format("  fault in block (%u,%u,%u) thread (%u,%u,%u)", f.block[0], f.block[1], f.block[2],
                   f.thread[0], f.thread[1], f.thread[2]);
    text += f.file.empty() ? ": " : " at " + printable(f.file) + ":" + std::to_string(f.line) + ": ";
    text += printable_lines(f.message) + "\n";
  }
  if (verdict.kind == Kind::kBadPlan) {
    text +=
        "  what to do: plan() fills in every field of the attn_plan it is given; attention.h says what each "
        "means\n";
  }
  if (verdict.plan.size > 0) {
    const attn_plan& plan = verdict.plan;
    text += format("  plan: %s, %lld split(s), tiles %lld x %lld\n", path_of(plan).c_str(),
                   (long long)verdict.plan.num_splits, (long long)verdict.plan.tile_q,
                   (long long)verdict.plan.tile_k);
  }
  if (verdict.sampled < verdict.rows) {
    text += format("  %lld of %lld rows were compared with the oracle\n", (long long)verdict.sampled,
                   (long long)verdict.rows);
  }
  if (verdict.warning && verdict.outcome != Outcome::kFail)
    text +=
        "  statistical warning (" + verdict.warning->sign + "): " + printable(verdict.warning->message) + "\n";
  if (verdict.declared)
    text +=
        format("  of its bound %.0f %% is what the plan declares or leaves open\n", 100 * *verdict.declared);
  text += assumed_line(verdict.assumptions);
  return text;
}

FaultGuess guess_of(const Reduction& reduction, Target& target, const Calibration& calibration) {
  return guess_fault({reduction.minimal, reduction.verdict, reduction.needs, target.info().lane,
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

namespace {

Json reduction_json(const Filed& filed) {
  const Reduction& r = *filed.reduction;
  const FaultGuess& guess = filed.guess;
  return {{"seconds", filed.reduce_seconds},
          {"evaluations", r.evaluations},
          {"complete", r.complete},
          {"lane", r.minimal.lane},
          {"vote", filed.vote},
          {"minimal", describe(r.minimal)},
          {"property", r.verdict.property},
          {"kind", to_string(r.verdict.kind)},
          {"message", r.verdict.message},
          {"path", path_of(r.verdict.plan)},
          {"needs", r.needs},
          {"indifferent", r.indifferent},
          {"guess", guess.known()
                        ? Json{{"class", id_of(guess.likely)},
                               {"why", guess.why},
                               {"also", guess.also == FaultClass::kUnknown ? Json() : Json(id_of(guess.also))}}
                        : Json()}};
}

Json failure_json(const Failure& failure, double seconds, const Filed& filed) {
  Json j = {{"property", failure.property->name},
            {"kind", to_string(failure.verdict.kind)},
            {"message", failure.verdict.message},
            {"path", path_of(failure.verdict.plan)},
            {"cheat", to_string(failure.verdict.exploit)},
            {"flaky", failure.flaky},
            {"seconds", seconds},
            {"reproducer", filed.reproducer}};
  if (failure.file.empty()) {
    j["index"] = failure.index;
  } else {
    j["found_before"] = true;
  }
  return j;
}

Json confinement_json(uint32_t measures) {
  Json confined = Json::array(), lacking = Json::array();
  for (const MeasureName& m : measure_names()) (measures & m.measure ? confined : lacking).push_back(m.name);
  return {{"confined", confined}, {"lacking", lacking}};
}

}  // namespace

const char* status_of(const Checked& checked) {
  if (!checked.result.failures.empty()) return "found";
  if (checked.result.interrupted) return "interrupted";
  return checked.not_judged.empty() ? "held" : "not judged";
}

std::string check_json(const CheckOptions& options, const Checked& checked) {
  const KernelInfo& kernel = checked.kernel;
  const CheckResult& result = checked.result;
  Json j;
  j["status"] = status_of(checked);
  j["not_judged"] = checked.not_judged;
  j["kernel"] = kernel.name;
  j["backend"] = kernel.backend == ATTN_CPU ? "cpu" : "cuda";
  j["lane"] = kernel.lane;
  j["build"] = kernel.build.hash;
  if (!kernel.device.empty()) j["device"] = kernel.device;
  if (checked.measures != 0) j["untrusted"] = confinement_json(checked.measures);
  if (checked.taken) j["taken_share"] = *checked.taken;
  if (checked.exploit != Exploit::kNone) j["cheat"] = to_string(checked.exploit);
  j["seed"] = options.seed;
  j["cases"] = result.cases();
  j["seconds"] = result.seconds;
  j["digest"] = result.digest.hex();
  j.update(Json(static_cast<const Statistics&>(result)));
  // The sums over all properties, with what a reader asks first.
  const PropertyStats all = total_of(result);
  j["all"] = all;
  j["all"]["runs"] = all.ratios.count();
  j["all"]["median"] = all.ratios.median();
  j["all"]["worst"] = std::isfinite(all.ratios.worst()) ? Json(all.ratios.worst()) : Json("inf");
  if (!options.path.empty()) j["way"] = options.path;
  if (result.declared_of > 0) j["declared_share"] = result.declared / static_cast<double>(result.declared_of);
  j["broken_floors"] = options.path.empty()
                           ? result.features.broken_floors(checked.refused, Classification::kByChance)
                           : std::vector<std::string>{};
  if (checked.covered) j["coverage"] = *checked.covered;
  if (const auto& tiles = checked.tiles; tiles && tiles->keys > 0)
    j["tiles"] = {{"queries", tiles->queries},
                  {"keys", tiles->keys},
                  {"keys_shown", tiles->shown > 0 ? Json(tiles->shown) : Json()},
                  {"contradicted", tiles->contradicted()},
                  {"broken", tiles->broken}};
  j["census"] = result.census;
  // The first by itself, for there is seldom another.
  for (size_t i = 0; i < result.failures.size(); ++i) {
    const Filed filed = i < checked.filed.size() ? checked.filed[i] : Filed{};
    Json failure = failure_json(result.failures[i], result.seconds, filed);
    if (i == 0) j["failure"] = failure;
    if (filed.reduction) failure["reduction"] = reduction_json(filed);
    if (i == 0 && filed.reduction) j["reduction"] = failure["reduction"];
    j["failures"].push_back(failure);
  }
  j["suspects"] = Json::array();
  for (size_t i = 0; i < checked.warnings.size(); ++i) {
    const WarnedCase& warned = result.warnings[i];
    j["suspects"].push_back({{"index", warned.index},
                             {"sign", warned.warning.sign},
                             {"message", warned.warning.message},
                             {"reproducer", checked.warnings[i]}});
  }
  return json_text(j) + "\n";
}

report::Report read_and_tell(const std::string& dir) {
  report::Report report = report::read_report(dir);
  for (const std::string& problem : report.problems)
    std::fprintf(stderr, "attnfuzz: %s\n", printable(problem).c_str());
  for (const std::string& target : report.not_judged)
    std::fprintf(stderr, "attnfuzz: not judged: %s\n", printable(target).c_str());
  return report;
}

}  // namespace attnfuzz
