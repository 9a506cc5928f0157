// Counts judged cases; declared in archive.h.
#include <algorithm>
#include <bit>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

int heat_bucket(int64_t length) {
  return length <= 0 ? 0 : std::bit_width(static_cast<uint64_t>(length - 1)) + 1;
}

void TargetStats::add(const Case& c, const Verdict& verdict) {
  const bool held = verdict.outcome != Outcome::kFail;
  Statistics::add(c, verdict, held);
  HeatCell& cell = heat[{heat_bucket(c.problem.seq_q), heat_bucket(c.problem.seq_k)}];
  ++cell.cases;
  if (held) cell.worst = std::max(cell.worst, verdict.worst);
}

void TargetStats::merge(const TargetStats& other) {
  Statistics::merge(other);
  for (const auto& [at, from] : other.heat) {
    heat[at].cases += from.cases;
    heat[at].worst = std::max(heat[at].worst, from.worst);
  }
  for (const auto& [origin, n] : other.origins) origins[origin] += n;
  for (const auto& [kind, n] : other.not_filed) not_filed[kind] += n;
  quarantined += other.quarantined;
  long_parents += other.long_parents;
  wall += other.wall;
}

}  // namespace attnfuzz
