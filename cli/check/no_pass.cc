#include "cli/check/no_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "fuzz/check/failure/exploits.h"
#include "fuzz/check/takes/refusals.h"
#include "fuzz/check/tighter.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"

namespace attnfuzz {
namespace {

// A tighter class of rounding is tried from this many cases on.
constexpr uint64_t kFewestToTighten = 200;

// A kernel may accept everything when it is asked, and refuse later. The floors of the draw notice
// this in a long check. This measurement also notices it in a short one.
void measure_refused(const CheckResult& result, Checked& checked) {
  constexpr double kMost = 0.05;
  constexpr uint64_t kFewest = 20;
  const double cases = static_cast<double>(result.features.cases);
  const double chance = Classification::kByChance * std::sqrt(cases * kMost * (1 - kMost));
  if (result.features.cases < kFewest || static_cast<double>(result.refused) <= kMost * cases + chance) return;
  checked.exploit = Exploit::kRefusing;
  checked.not_judged.push_back(
      fmt::format("{} refused {} of {} cases inside --domain: a kernel that refuses does not pass",
                  checked.kernel.name, result.refused, result.features.cases));
}

// A slow kernel is asked about few problems. It must not pass because of that.
void measure_pace(const CheckResult& result, double seconds, Checked& checked) {
  constexpr double kFewest = 50, kFewestASecond = 5;
  const PropertyStats all = total_of(result);
  const uint64_t judged = all.passed + all.failed;
  if (static_cast<double>(judged) >= std::min(kFewest, kFewestASecond * seconds)) return;
  checked.not_judged.push_back(fmt::format(
      "of {} {} cases were judged in the time that it was given: too few to say anything; give it more "
      "time, or a --domain of smaller problems",
      checked.kernel.name, judged));
}

// Tells whether NaN or an infinity is planted in Q, K or V.
bool has_non_finite(Case c) {
  const size_t planted = c.planted.size();
  refusal_of_several(Limit::kFinite)->strip(c);
  return c.planted.size() != planted;
}

// If a launch was refused because of its shared memory: the shared memory, in bytes, of the
// smallest device that allows it. Otherwise 0.
int64_t device_for(const Verdict& verdict) {
  if (!verdict.fault || verdict.fault->kind != ATTN_REPORT_LAUNCH || verdict.fault->shared_bytes <= 0) return 0;
  const auto device = std::ranges::lower_bound(kSharedOfDevices, verdict.fault->shared_bytes);
  return device == std::end(kSharedOfDevices) ? 0 : *device;
}

// Says how many cases an assumption left unjudged, and what a kernel that computes in fp32 should declare.
std::string costs_of(const Tighter& tighter, const EntryOptions& entry, const std::string& kernel,
                     const std::string& tile) {
  std::string text = fmt::format("{}: of {} cases {} were not judged, {} without what was assumed: {}", kernel,
                                 tighter.cases, tighter.uninformative, tighter.without, tighter.costs);
  if (!tighter.consistent()) return text;
  text += "; if it computes in fp32, with which its errors are consistent, ";
  if (entry.call.empty()) return text + "let it say so: in_fp32 = true in Takes, or the classes in plan()";
  return text + fmt::format("say --takes '{}{}in_fp32 = true{}'{}", entry.takes,
                            entry.takes.empty() ? "" : "; ", tile,
                            tile.empty() ? ", and tile = N if its tiles are not of 64 keys" : "");
}

}  // namespace

bool judged_by(const CheckResult& result, const Property& property) {
  const auto stats = result.properties.find(property.name);
  return stats != result.properties.end() && stats->second.cases > stats->second.rejected;
}

std::string measure_taken(Target& target, const CheckOptions& options, Checked& checked) {
  constexpr double kOfDomain = 0.95, kOfAll = 0.05;
  GeneratorConfig config;
  config.work = 100'000;
  if (options.terms) config.refused = options.terms->refused, config.domain = options.terms->domain;
  const Taken asked = problems_taken(target, config);
  const double taken = asked.share(), floor = options.terms ? kOfDomain : kOfAll;
  checked.taken = taken;
  const std::string of = options.terms ? "problems inside --domain" : "problems of all kinds";
  const std::string line = fmt::format("  takes {:.0f} % of {}\n", 100 * taken, of);
  if (taken >= floor) return line;
  checked.exploit = Exploit::kRefusing;
  const auto often = std::ranges::max_element(
      asked.reasons, {}, [](const std::pair<const std::string, int>& reason) { return reason.second; });
  checked.not_judged.push_back(fmt::format(
      "{} takes {} % of {}, and at least {} % is due: a kernel that refuses does not pass; say with "
      "--domain what it must take",
      checked.kernel.name, std::lround(100 * taken), of, std::lround(100 * floor)));
  if (often != asked.reasons.end())
    checked.not_judged.back() +=
        fmt::format(" (of {} it said {} times: {})", asked.of, often->second, printable(often->first, 200));
  return line;
}

std::string unvouched(const TargetOptions& target, uint64_t left_out, uint64_t of, const std::string& what) {
  if (target.untrusted.empty() || left_out == 0) return "";
  return fmt::format("under --untrusted a kernel that refuses does not pass: {} of {} {} were left out",
                     left_out, of, what);
}

void collect_not_judged(const CheckArguments& arguments, const CheckOptions& options, bool whole,
                        Checked& checked) {
  const CheckResult& result = checked.result;
  const std::string& kernel = checked.kernel.name;
  const bool untrusted = !arguments.target.untrusted.empty();
  for (std::string& why : not_judged(result, kernel, checked.refused, whole))
    checked.not_judged.push_back(std::move(why));
  if (untrusted && arguments.check.terms) measure_refused(result, checked);
  if (untrusted && options.seconds > 0 && result.failures.empty())
    measure_pace(result, options.seconds, checked);
  const auto lacks = [&](const std::string& why) { checked.not_judged.push_back(kernel + ": " + why); };
  if (!arguments.properties.empty()) {
    for (const Property* property : options.properties) {
      if (!judged_by(result, *property))
        lacks(
            fmt::format("nothing was judged by {}, which was asked for: ask only for this, or for more --cases",
                        property->name));
    }
  }
  if (arguments.target.oracle != "cpu" && result.oracle.fast == 0)
    lacks("the oracle on the GPU judged nothing: judge by the CPU's (--oracle cpu)");
  if (options.batch > 0 && result.batch.cleared + result.batch.doubted == 0)
    lacks("nothing was judged in batches: leave --batch out, or give another --property");
}

std::string try_tighter(Target& target, const GeneratorConfig& config, const Calibration& calibration,
                        const CheckArguments& arguments, Checked& checked) {
  const CheckResult& result = checked.result;
  if (!arguments.target.untrusted.empty() || checked.kernel.refuses_late) return "";
  if (!leaves_fp32_open(result.assumptions)) return "";
  if (result.features.cases < kFewestToTighten && checked.not_judged.empty()) return "";
  const bool entry = !arguments.entry.call.empty();
  const Tighter tighter = try_fp32(target, config, calibration);
  std::string text = "  " + words(tighter);
  if (tighter.consistent())
    text += entry ? "; if it is in fp32, --takes 'in_fp32 = true' holds it to that"
                  : "; if it is in fp32, let it say so: in_fp32 = true in Takes, or accumulator, exp_class, "
                    "scale_mode and p_format in plan()";
  text += "\n";
  const KeyTiles tiles = checked.tiles.value_or(KeyTiles{});
  const bool other_tile = entry && tiles.shown > 0 && tiles.shown != tiles.keys;
  if (other_tile)
    text += fmt::format("  its output shows tiles of {0} keys: --takes 'tile = {0}'\n", tiles.shown);
  if (!checked.not_judged.empty() && !tighter.costs.empty())
    checked.not_judged.push_back(costs_of(tighter, arguments.entry, checked.kernel.name,
                                          other_tile ? fmt::format("; tile = {}", tiles.shown) : ""));
  return text;
}

std::vector<std::string> advice_on(const Failure& failure, const Filed& filed) {
  std::vector<std::string> lines;
  if (!filed.reduction) return lines;
  const Case& minimal = filed.reduction->minimal;
  if (failure.verdict.kind == Kind::kNonFinite && has_non_finite(minimal))
    lines.emplace_back(
        "A kernel that promises nothing where Q, K or V hold NaN or infinity: check it with --finite");
  if (const int64_t shared = device_for(filed.reduction->verdict); shared > 0)
    lines.push_back(fmt::format(
        "A kernel for devices with more shared memory: let it refuse the others (Takes: shared = {}; in "
        "plan(): env.shared_memory_limit)",
        shared));
  if (minimal.problem.scale <= 0)
    lines.emplace_back(
        "A kernel that promises nothing of a scale of 0 or below: let it refuse one (Takes: scale = "
        "Scale::kPositive; Domain: scale=\"positive\")");
  return lines;
}

}  // namespace attnfuzz
