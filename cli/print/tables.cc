#include "cli/print/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "cli/print/checked.h"
#include "cli/print/verdict.h"

namespace attnfuzz {
namespace {

std::string ratio(double value, uint64_t count) {
  if (count == 0) return "-";
  return std::isfinite(value) ? fmt::format("{:.3g}", value) : "inf";
}

std::string worst_and_median(const PropertyStats& n) {
  return fmt::format("{:>9} {:>8}", ratio(n.ratios.worst(), n.ratios.count()),
                     ratio(n.ratios.median(), n.ratios.count()));
}

std::string row(const std::string& name, const PropertyStats& n) {
  return fmt::format("  {:<15} {:>8} {:>8} {:>7} {:>10} {:>6} {}\n", name, n.cases, n.passed, n.rejected,
                     n.uninformative, n.failed, worst_and_median(n));
}

// A path's name is longer than a property's, so the column of refused cases is left out.
std::string path_row(const std::string& path, const PropertyStats& n) {
  return fmt::format("  {:<24} {:>8} {:>8} {:>10} {:>6} {}\n", path, n.cases, n.passed, n.uninformative,
                     n.failed, worst_and_median(n));
}

std::string floors_text(const CheckResult& result, const Refused& refused, const std::string& part) {
  if (!part.empty()) return "  floors of the draw: not judged, for " + part + " alone were drawn\n";
  std::string text;
  const std::vector<std::string> broken = result.features.broken_floors(refused, Classification::kByChance);
  if (result.features.cases < 500) {
    text = "  floors of the draw: not judged below 500 cases\n";
  } else if (broken.empty()) {
    text = "  floors of the draw: kept\n";
  }
  for (const std::string& floor : broken) text += "  floor of the draw BROKEN: " + floor + "\n";
  for (const std::string& floor : result.features.eased_floors(refused)) text += "    " + floor + "\n";
  return text;
}

std::string rejections_text(const CheckResult& result) {
  constexpr size_t kMost = 5;
  std::vector<std::pair<uint64_t, std::string>> reasons;
  for (const auto& [reason, n] : result.rejections) reasons.emplace_back(n, reason);
  std::ranges::sort(reasons, std::greater<>());
  std::string text;
  for (size_t i = 0; i < reasons.size() && i < kMost; ++i)
    text += fmt::format("  refused {} x {}\n", reasons[i].first, printable(reasons[i].second));
  return text;
}

// The relations whose results should have equal bits, how often they were compared so, and why not in the other cases.
std::string bits_text(const CheckResult& result) {
  std::string text;
  for (const auto& [name, n] : result.properties) {
    if (n.by_bits + n.by_bounds == 0) continue;
    text += fmt::format("  {}: compared bit for bit in {} of {} cases\n", name, n.by_bits, n.by_bits + n.by_bounds);
    for (const auto& [reason, count] : result.by_bounds) {
      if (reason.starts_with(name + ": "))
        text += fmt::format("    within bounds in {}: {}\n", count, printable(reason.substr(name.size() + 2)));
    }
  }
  return text;
}

std::string warnings_text(const CheckResult& result) {
  std::string signs;
  for (const auto& [sign, n] : result.warning_counts)
    signs += fmt::format("{}{} {}", signs.empty() ? "" : ", ", sign, n);
  return signs.empty() ? "" : "  statistical warnings, no failures: cases by sign: " + signs + "\n";
}

}  // namespace

std::string properties_table(const CheckResult& result) {
  std::string text = fmt::format("  {:<15} {:>8} {:>8} {:>7} {:>10} {:>6} {:>9} {:>8}\n", "property", "cases",
                                 "passed", "refused", "not judged", "failed", "worst e/b", "median");
  for (const Property* property : all_properties()) {
    const auto it = result.properties.find(property->name);
    if (it != result.properties.end()) text += row(property->name, it->second);
  }
  text += row("all", total_of(result));
  if (!result.paths.empty())
    text += fmt::format("  {:<24} {:>8} {:>8} {:>10} {:>6} {:>9} {:>8}\n", "path through the kernel", "cases",
                        "passed", "not judged", "failed", "worst e/b", "median");
  for (const auto& [path, n] : result.paths) text += path_row(path, n);
  return text;
}

std::string check_notes(const CheckResult& result, const Refused& refused,
                        const std::optional<Covered>& covered, const std::string& part) {
  std::string text = result.features.table();
  if (covered) text += attnfuzz::text(*covered);
  text += floors_text(result, refused, part);
  text += fmt::format("  rows judged {}, of them dead {}, uninformative {}, unconstrained {}\n", result.rows,
                      result.dead_rows, result.uninformative_rows, result.unconstrained_rows);
  text += rejections_text(result);
  text += bits_text(result);
  if (!result.oracle.device.empty()) text += oracle_text(result.oracle);
  if (const BatchUse& use = result.batch; use.cleared + use.doubted > 0) text += "  " + words(use) + "\n";
  for (const auto& [build_kind, n] : result.build_kinds)
    text += fmt::format("  run in the build {}: {} of the cases\n", build_kind, n);
  text += warnings_text(result);
  if (result.declared_of > 0)
    text += fmt::format(
        "  of the bound {:.0f} % is what the kernel declares or leaves open, in the mean of {} cases\n",
        100 * result.declared / static_cast<double>(result.declared_of), result.declared_of);
  const StageSeconds& spent = result.stages;
  if (const double percent = spent.sum() / 100; percent > 0)
    text += fmt::format("  time: lay out {:.0f} %, kernel {:.0f} %, oracle {:.0f} %, judge {:.0f} %\n",
                        spent.lay_out / percent, spent.kernel / percent, spent.oracle / percent,
                        spent.judge / percent);
  text +=
      fmt::format("  {} cases in {:.1f} s: {:.0f} cases/s; stream digest {}\n", result.cases(), result.seconds,
                  static_cast<double>(result.cases()) / std::max(result.seconds, 1e-9), result.digest.hex());
  return text;
}

}  // namespace attnfuzz
