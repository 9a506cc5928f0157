#include "properties/judge/oracles.h"

namespace attnfuzz {

void OracleUse::merge(const OracleUse& other) {
  if (device.empty()) device = other.device;
  fast += other.fast;
  both += other.both;
  for (const auto& [reason, n] : other.left) left[reason] += n;
}

uint64_t OracleUse::left_in_all() const {
  uint64_t sum = 0;
  for (const auto& [reason, n] : left) sum += n;
  return sum;
}

Oracles::Oracles(std::unique_ptr<FastOracle> fast, uint64_t seed, uint64_t both_in)
    : fast_(std::move(fast)), random_{seed}, both_in_(both_in) {
  use_.device = fast_->device();
}

std::optional<Reference> Oracles::evaluate(const attn_problem& problem, const attn_tensors& host,
                                           const attn_plan& plan, const Calibration& calibration,
                                           RowSample sample) {
  std::string why;
  auto reference = fast_->evaluate(problem, host, plan, calibration, sample, &why);
  if (!reference) {
    ++use_.left[why];
    drawn_ = false;
    return reference;
  }
  const uint64_t bits = random_();
  drawn_ = use_.fast++ == 0 || bits % both_in_ == 0;
  return reference;
}

}  // namespace attnfuzz
