// Counting judged cases; declared in archive.h.
#include <algorithm>
#include <bit>
#include <cmath>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

int heat_bucket(int64_t length) {
  return length <= 0 ? 0 : std::bit_width(static_cast<uint64_t>(length - 1)) + 1;
}

void TargetStats::add(const Case& c, const Verdict& verdict) {
  PropertyStats& p = properties[verdict.property];
  ++p.cases;
  switch (verdict.outcome) {
    case Outcome::kPass:
      ++p.passed;
      break;
    case Outcome::kReject:
      ++p.rejected;
      ++features.rejected;
      ++rejections[verdict.property + ": " + verdict.message];
      break;
    case Outcome::kUninformative:
      ++p.uninformative;
      ++features.uninformative;
      break;
    case Outcome::kFail:
      ++p.failed;
      break;
  }
  features.add(c, std::max<int64_t>(verdict.plan.tile_q, 1), std::max<int64_t>(verdict.plan.tile_k, 1));
  HeatCell& cell = heat[{heat_bucket(c.problem.seq_q), heat_bucket(c.problem.seq_k)}];
  ++cell.cases;
  if (verdict.outcome != Outcome::kFail) {
    for (float ratio : verdict.ratios) {
      ++p.ratios[ratio > 0 ? static_cast<int>(std::floor(std::log2(ratio))) : PropertyStats::kExact];
    }
    p.worst = std::max(p.worst, verdict.worst);
    cell.worst = std::max(cell.worst, verdict.worst);
  }
  rows += static_cast<uint64_t>(verdict.rows);
  dead_rows += static_cast<uint64_t>(verdict.dead_rows);
  uninformative_rows += static_cast<uint64_t>(verdict.uninformative_rows);
  unconstrained_rows += static_cast<uint64_t>(verdict.unconstrained_rows);
  lay_out += verdict.lay_out_s;
  kernel += verdict.kernel_s;
  oracle += verdict.oracle_s;
  judge += verdict.judge_s;
}

void TargetStats::merge(const TargetStats& other) {
  for (const auto& [name, from] : other.properties) {
    PropertyStats& to = properties[name];
    to.cases += from.cases;
    to.passed += from.passed;
    to.rejected += from.rejected;
    to.uninformative += from.uninformative;
    to.failed += from.failed;
    to.worst = std::max(to.worst, from.worst);
    for (const auto& [octave, n] : from.ratios) to.ratios[octave] += n;
  }
  for (const auto& [reason, n] : other.rejections) rejections[reason] += n;
  features.merge(other.features);
  for (const auto& [at, from] : other.heat) {
    heat[at].cases += from.cases;
    heat[at].worst = std::max(heat[at].worst, from.worst);
  }
  for (const auto& [origin, n] : other.origins) origins[origin] += n;
  for (const auto& [kind, n] : other.not_filed) not_filed[kind] += n;
  quarantined += other.quarantined;
  rows += other.rows;
  dead_rows += other.dead_rows;
  uninformative_rows += other.uninformative_rows;
  unconstrained_rows += other.unconstrained_rows;
  wall += other.wall;
  lay_out += other.lay_out;
  kernel += other.kernel;
  oracle += other.oracle;
  judge += other.judge;
}

}  // namespace attnfuzz
