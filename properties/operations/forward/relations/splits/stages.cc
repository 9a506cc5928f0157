// Judges the two stages of Split-K separately. Each partial result is compared with the oracle's
// for the same keys; then the reduction runs on the oracle's partials. So a failure names the stage that is
// wrong.
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/splits/stage_tools.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool partials_are_right(Trial& trial, const Execution& prepared, const attn_partials& where) {
  const Partials found = read_partials(prepared, where);
  const LaidOut& laid = prepared.laid;
  const int64_t rows = found.rows;
  for (int64_t split = 0; split < found.splits; ++split) {
    const PartialReference expected =
        evaluate_partials(laid.problem(), laid.tensors(), prepared.plan, trial.calibration(), split);
    Outputs outputs;
    const int64_t elements = rows * found.dim_v;
    outputs[TensorId::kO].assign(found.o.begin() + split * elements, found.o.begin() + (split + 1) * elements);
    outputs[TensorId::kLse].assign(found.lse.begin() + split * rows, found.lse.begin() + (split + 1) * rows);
    Verdict& v = trial.verdict();
    if (judge_outputs(operations::forward, expected.reference, prepared.c.problem, prepared.plan, outputs, v)) {
      continue;
    }
    v.message = "the partial of split " + std::to_string(split) + " of " + std::to_string(found.splits) +
                ", keys " + std::to_string(expected.first_key) + ".." + std::to_string(expected.last_key - 1) +
                ": " + v.message;
    return false;
  }
  return true;
}

void check_stages(Trial& trial) {
  if (!trial.run(trial.base())) return;
  Execution* prepared = trial.prepare(variant_of(trial.base()), "partial stage");
  if (!prepared) return;
  const std::optional<attn_partials> where = partials_of(trial, *prepared);
  if (!where) return;
  prepared->laid.before_call(Call{});
  if (!trial.run_stage(*prepared, Stage::kPartial, "partial stage")) return;
  if (!partials_are_right(trial, *prepared, *where)) return;
  const Partials partials = oracle_partials(*prepared, trial.calibration(), where->num_splits);
  Reduced reduced;
  reduce_partials(trial, *prepared, *where, partials, "fed with the oracle's partials", &reduced);
}

}  // namespace

extern const Property stages = {.name = "stages",
                                .statement = "each partial is right, and so is the reduction of right partials",
                                .adapt = staged_case,
                                .check = check_stages,
                                .needs_stages = true,
                                .asks_target = true,
                                .kv8 = true};

}  // namespace attnfuzz::relations
