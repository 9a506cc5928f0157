#include "fuzz/check/counts/enough.h"

#include <tuple>

namespace attnfuzz {

std::string too_little_judged(const Statistics& stats, const std::string& name) {
  constexpr uint64_t kFewest = 20;
  // Rows are counted because a kernel that refuses all its cases passes the properties about refusals.
  if (stats.rows <= stats.unconstrained_rows)
    return "no result of " + name + " was compared: a check that compares nothing does not pass";
  const auto& [cases, rejected, uninformative] =
      std::tie(stats.features.cases, stats.features.rejected, stats.features.uninformative);
  if (cases < kFewest || 2 * (rejected + uninformative) <= cases) return "";
  return "most cases of " + name + " were not judged: of " + std::to_string(cases) + ", " +
         std::to_string(rejected) + " were refused and " + std::to_string(uninformative) +
         " have scores too uncertain to judge";
}

}  // namespace attnfuzz
