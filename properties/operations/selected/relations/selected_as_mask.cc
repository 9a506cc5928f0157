// A list of blocks is a mask. The oracle of listed blocks reads the lists themselves. Here the forward pass's
// oracle gets a mask that is made from the recipe of the lists. The comparison shows errors of the oracle of
// listed blocks.
#include "properties/operations/selected/relations/lists_as_mask.h"
#include "reference/oracle.h"

namespace attnfuzz::relations {
namespace {

void check_selected_as_mask(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || !trial.laid_out()) return;
  const Problem& p = base->c.problem;
  if (too_many_pairs_for_mask(p)) return;
  std::vector<uint8_t> mask = mask_of_lists(base->c);
  attn_problem forward = trial.laid_out()->laid.problem();
  attn_tensors tensors = trial.laid_out()->laid.tensors();
  forward.features &= ~ATTN_FEATURE_SELECTED;
  lists_to_mask(mask, &forward, &tensors);
  attn_plan plan = in_any_order(base->plan);
  plan.tile_k = 1;  // a kernel may gather keys: each may be alone in its block of an mma
  const Reference due = evaluate(forward, tensors, plan, trial.calibration());
  Verdict& v = trial.verdict();
  if (!judge_outputs(operations::forward, due, p, plan, base->calls[0], v))
    v.message = "against the forward pass with the lists as a mask: " + v.message;
}

}  // namespace

extern const Property selected_as_mask = {
    .name = "selected_as_mask",
    .statement = "listed blocks give what a mask of these blocks gives",
    .adapt = any_case,
    .check = check_selected_as_mask,
    .asks_target = true,
    .operation = &operations::selected,
    .packed = true};

}  // namespace attnfuzz::relations
