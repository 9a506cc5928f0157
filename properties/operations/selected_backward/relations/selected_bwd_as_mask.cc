// A list of blocks is a mask, also for gradients. The oracle of gradients reads the lists themselves. Here it
// gets a dense backward pass with a mask that is made from the recipe of the lists. The comparison shows errors
// of the oracle over listed blocks.
#include "properties/operations/backward/relations/tools.h"
#include "properties/operations/selected/relations/lists_as_mask.h"
#include "reference/gradients/gradients.h"

namespace attnfuzz::relations {
namespace {

void check_selected_bwd_as_mask(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || !trial.laid_out()) return;
  if (too_many_pairs_for_mask(base->c.problem)) return;
  std::vector<uint8_t> mask = mask_of_lists(base->c);
  attn_problem dense = trial.laid_out()->laid.problem();
  attn_tensors tensors = trial.laid_out()->laid.tensors();
  dense.features = (dense.features & ~ATTN_FEATURE_SELECTED_BACKWARD) | ATTN_FEATURE_BACKWARD;
  lists_to_mask(mask, &dense, &tensors);
  attn_plan plan = base->plan;
  plan.tile_q = plan.tile_k = 1;  // a kernel may gather keys and queries: each may be alone in its block of an mma
  Reference due = evaluate_gradients(dense, tensors, plan, trial.calibration());
  std::erase_if(due.outputs,
                [](const Expected& one) { return !operations::selected_backward.has(one.tensor); });
  Verdict& v = trial.verdict();
  if (!judge_outputs(operations::selected_backward, due, base->c.problem, plan, base->calls[0], v))
    v.message = "against a dense backward pass with the lists as a mask: " + v.message;
}

}  // namespace

extern const Property selected_bwd_as_mask = {
    .name = "selected_bwd_as_mask",
    .statement = "gradients over listed blocks are those with a mask of these blocks",
    .adapt = any_case,
    .check = check_selected_bwd_as_mask,
    .asks_target = true,
    .operation = &operations::selected_backward,
    .packed = true};

}  // namespace attnfuzz::relations
