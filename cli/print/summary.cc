#include "cli/print/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "cli/print/verdict.h"
#include "reference/call/backend.h"

namespace attnfuzz {
namespace {

std::string largest_error(const RatioHistogram& ratios) {
  if (ratios.count() == 0) return "";
  const double worst = ratios.worst();
  return std::isfinite(worst) ? fmt::format(", largest error {:.3g} of its bound", worst)
                              : ", largest error infinite";
}

// Green, red or yellow, by the status.
std::string colored(const std::string& text, const Checked& checked) {
  const int code = !checked.result.failures.empty()                            ? 31
                   : checked.result.interrupted || !checked.not_judged.empty() ? 33
                                                                               : 32;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

}  // namespace

std::string counted(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string summary_text(const Checked& checked, size_t properties, uint64_t seed, bool color) {
  const CheckResult& result = checked.result;
  const KernelInfo& kernel = checked.kernel;
  const PropertyStats all = total_of(result);
  const std::string name = printable(kernel.name);
  std::string text = fmt::format(
      "{}  {} {}: {} cases, {} properties, {} failed, {} not judged, {:.{}f} s{}{}{}\n",
      color ? colored(name, checked) : name, backend_name(kernel.backend), printable(kernel.build_kind),
      counted(result.cases()), properties, counted(std::max<uint64_t>(all.failed, result.failures.size())),
      counted(all.uninformative), result.seconds, result.seconds < 10 ? 1 : 0, largest_error(all.ratios),
      seed == 1 ? "" : fmt::format(", seed {}", seed),
      result.failures.empty() && result.interrupted            ? ", interrupted"
      : result.failures.empty() && !checked.not_judged.empty() ? ", too little was judged"
                                                               : "");
  std::vector<std::string> left_out = checked.left_out;
  if (all.rejected > 0) left_out.insert(left_out.begin(), counted(all.rejected) + " cases that it refused");
  if (!left_out.empty())
    text += fmt::format("  left out: {}\n", printable(fmt::format("{}", fmt::join(left_out, "; ")), 2000));
  return text + assumed_line(result.assumptions);
}

}  // namespace attnfuzz
