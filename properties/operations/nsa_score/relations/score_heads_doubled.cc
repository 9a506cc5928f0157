// Scores are sums over the heads of a group. With each query head twice, all scores double, and the same
// choices are right.
#include "properties/operations/nsa_score/relations/tools.h"

namespace attnfuzz::relations {
namespace {

void check_score_heads_doubled(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.problem.heads_q *= 2;
  other.remap.head_q.repeat = 2;
  fit_memory(other);
  constexpr const char* kWhat = "each query head twice";
  const Run* run = trial.run_if_taken(other, kWhat);
  if (!run) return;
  for (int64_t row = 0; row < base->reference.rows; ++row) {
    if (!trial.same_within(*base, row, *run, row, kWhat, 2)) return;
    if (!is_admissible(trial, *run, row, *base, row, kWhat, 2)) return;
  }
}

}  // namespace

extern const Property score_heads_doubled = {
    .name = "score_heads_doubled",
    .statement = "with each query head twice, scores double and choices stay",
    .adapt = any_case,
    .check = check_score_heads_doubled,
    .operation = &operations::nsa_score,
    .packed = true};

}  // namespace attnfuzz::relations
