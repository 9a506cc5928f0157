#include "fuzz/check/counts/statistics.h"

#include <algorithm>

#include "base/printable.h"
#include "fuzz/check/counts/kernel_path.h"
#include "properties/case/features/feature.h"

namespace attnfuzz {

void PropertyStats::merge(const PropertyStats& other) {
  cases += other.cases;
  passed += other.passed;
  rejected += other.rejected;
  uninformative += other.uninformative;
  failed += other.failed;
  by_bits += other.by_bits;
  by_bounds += other.by_bounds;
  ratios.merge(other.ratios);
}

void StageSeconds::merge(const StageSeconds& other) {
  lay_out += other.lay_out;
  kernel += other.kernel;
  oracle += other.oracle;
  judge += other.judge;
}

void PropertyStats::add(const Verdict& verdict, bool with_ratios) {
  ++cases;
  passed += verdict.outcome == Outcome::kPass;
  rejected += verdict.outcome == Outcome::kRefused;
  uninformative += verdict.outcome == Outcome::kNotJudged;
  failed += verdict.outcome == Outcome::kFail;
  by_bits += verdict.by_bits && verdict.by_bounds.empty();
  by_bounds += !verdict.by_bounds.empty();
  for (float ratio : verdict.ratios) {
    if (with_ratios) ratios.add(ratio);
  }
}

void Statistics::add(const Case& c, const Verdict& verdict, bool ratios) {
  properties[verdict.property].add(verdict, ratios);
  if (verdict.plan.size > 0) paths[path_name(verdict.plan)].add(verdict, ratios);
  features.rejected += verdict.outcome == Outcome::kRefused;
  features.uninformative += verdict.outcome == Outcome::kNotJudged;
  if (verdict.outcome == Outcome::kRefused) ++rejections[printable(verdict.property + ": " + verdict.message)];
  if (!verdict.by_bounds.empty()) ++by_bounds[verdict.property + ": " + verdict.by_bounds];
  refused += verdict.outcome == Outcome::kRefused && verdict.refused;
  if (verdict.warning && verdict.outcome != Outcome::kFail) ++warning_counts[verdict.warning->sign];
  features.add(c, std::max<int64_t>(verdict.plan.tile_q, 1), std::max<int64_t>(verdict.plan.tile_k, 1));
  rows += static_cast<uint64_t>(verdict.rows);
  dead_rows += static_cast<uint64_t>(verdict.dead_rows);
  uninformative_rows += static_cast<uint64_t>(verdict.uninformative_rows);
  unconstrained_rows += static_cast<uint64_t>(verdict.unconstrained_rows);
  stages.merge({verdict.lay_out_s, verdict.kernel_s, verdict.oracle_s, verdict.judge_s});
}

void Statistics::merge(const Statistics& other) {
  for (const auto& [name, n] : other.properties) properties[name].merge(n);
  for (const auto& [name, n] : other.paths) paths[name].merge(n);
  for (const auto& [reason, n] : other.rejections) rejections[reason] += n;
  for (const auto& [reason, n] : other.by_bounds) by_bounds[reason] += n;
  refused += other.refused;
  for (const auto& [build_kind, n] : other.build_kinds) build_kinds[build_kind] += n;
  for (const auto& [sign, n] : other.warning_counts) warning_counts[sign] += n;
  features.merge(other.features);
  rows += other.rows;
  dead_rows += other.dead_rows;
  uninformative_rows += other.uninformative_rows;
  unconstrained_rows += other.unconstrained_rows;
  stages.merge(other.stages);
  oracle.merge(other.oracle);
  batch.merge(other.batch);
}

void add_met(Coverage& coverage, const Case& c, const Verdict& verdict) {
  const attn_plan& plan = verdict.plan;
  if (verdict.outcome == Outcome::kRefused || plan.tile_q <= 0 || plan.tile_k <= 0) return;
  coverage.add({c, c.problem, plan.tile_q, plan.tile_k, plan.num_splits});
}

uint64_t Statistics::cases() const {
  uint64_t sum = 0;
  for (const auto& [name, n] : properties) sum += n.cases;
  return sum;
}

}  // namespace attnfuzz
