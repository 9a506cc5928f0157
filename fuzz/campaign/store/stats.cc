// Counts judged cases; declared in archive.h.
#include <algorithm>
#include <bit>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

int heat_bucket(int64_t length) {
  return length <= 0 ? 0 : std::bit_width(static_cast<uint64_t>(length - 1)) + 1;
}

void SequenceStats::leave_out(const std::string& why, uint64_t n) {
  constexpr size_t kMostReasons = 64;  // a kernel may put numbers into its reasons
  const bool known = left_out.contains(why) || left_out.size() < kMostReasons;
  left_out[known ? why : "for other reasons"] += n;
}

void SequenceStats::merge(const SequenceStats& other) {
  sequences += other.sequences, steps += other.steps, calls += other.calls, failed += other.failed;
  bounded += other.bounded;
  for (const auto& [operation, n] : other.asked) asked[operation] += n;
  for (const auto& [operation, n] : other.judged) judged[operation] += n;
  for (const auto& [why, n] : other.left_out) leave_out(why, n);
  for (const auto& [kind, n] : other.not_filed) not_filed[kind] += n;
  of_one_site += other.of_one_site;
  worst = std::max(worst, other.worst);
  wall += other.wall;
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
  of_one_site += other.of_one_site;
  quarantined += other.quarantined;
  long_parents += other.long_parents;
  wall += other.wall;
  sequences.merge(other.sequences);
}

uint64_t never_looked_at(const TargetStats& stats) {
  uint64_t failures = 0;
  for (const auto* not_filed : {&stats.not_filed, &stats.sequences.not_filed}) {
    for (const auto& [kind, n] : *not_filed) failures += n;
  }
  return failures;
}

}  // namespace attnfuzz
