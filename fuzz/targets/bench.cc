#include <algorithm>

#include "fuzz/check/check.h"
#include "fuzz/check/shard.h"
#include "fuzz/targets/counters.h"
#include "fuzz/targets/target.h"
#include "properties/judge/property.h"
#include "properties/judge/situations.h"
#include "properties/judge/trial.h"

namespace attnfuzz {

Bench::Bench(std::vector<std::unique_ptr<Target>> targets)
    : targets_(std::move(targets)),
      calibration_(executor()),
      config_(config_for(*targets_.front(), CheckOptions{})) {
  for (const auto& target : targets_) config_.splits |= target->info().has_stages;
  most_ = config_;
  most_.work *= 16;
}

Case Bench::in_build(size_t kernel, Case c) const {
  // The order comes from the case's own seed and not from a counter, so an input of libFuzzer replays as it
  // ran.
  enter_build(c, targets_[kernel]->info().build_kind, 0);
  return c;
}

Judged Bench::judge(size_t kernel, const Case& c, const std::string& property) {
  const Property& by = *find_property(wanted_property.empty() ? property : wanted_property);
  Target& target = *targets_[kernel];
  Judged judged = {{}, kernel, in_build(kernel, c)};
  if (const auto rejected = rejected_by(by, judged.c, target)) {
    judged.verdict = *rejected;
    return judged;
  }
  judged.verdict = attnfuzz::judge(judged.c, by, target, calibration_);
  record(judged);
  return judged;
}

void Bench::record(const Judged& judged) {
  count_edges(judged.kernel, targets_[judged.kernel]->coverage());
  for (const uint16_t id : situations(judged.c, judged.verdict)) count_situation(id);
}

std::string needs_history(Bench& bench, const Judged& judged) {
  const Property* property = find_property(judged.verdict.property);
  if (property == nullptr) return "seen only by comparing two kernels: each of them passes";
  Target& target = bench.target(judged.kernel);
  target.renew();
  const Verdict alone = judge(judged.c, *property, target, bench.calibration());
  if (alone.outcome == Outcome::kFail) return "";
  return "seen only after the calls that came before it in the same process: replay the unit, not the "
         "reproducer";
}

}  // namespace attnfuzz
