#include "fuzz/check/counts/enough.h"

#include <tuple>

namespace attnfuzz {
namespace {

constexpr uint64_t kFewest = 20;  // with fewer cases or calls, one judged result is enough

bool is_most(uint64_t unjudged, uint64_t all) { return all >= kFewest && 2 * unjudged > all; }

}  // namespace

std::string too_little_judged(const Statistics& stats, const std::string& name) {
  // Rows are counted because a kernel that refuses all its cases passes the properties about refusals.
  if (stats.rows <= stats.unconstrained_rows)
    return "no result of " + name + " was compared: a check that compares nothing does not pass";
  const auto& [cases, rejected, uninformative] =
      std::tie(stats.features.cases, stats.features.rejected, stats.features.uninformative);
  if (!is_most(rejected + uninformative, cases)) return "";
  return "most cases of " + name + " were not judged: of " + std::to_string(cases) + ", " +
         std::to_string(rejected) + " were refused and " + std::to_string(uninformative) +
         " have scores too uncertain to judge";
}

std::string too_few_calls_judged(uint64_t asked, uint64_t judged, const std::string& name) {
  const std::string of = name.empty() ? "" : " of " + name;
  if (judged == 0) return "nothing was judged" + of;
  if (!is_most(asked - judged, asked)) return "";
  return "most calls" + of + " were not judged: " + std::to_string(judged) + " of " +
         std::to_string(asked) + " were";
}

}  // namespace attnfuzz
