#include "reference/selected.h"

namespace attnfuzz {

ErrorModel selected_error_model(const attn_problem& problem, const attn_plan& plan,
                                const Calibration& calibration) {
  ErrorModel model = make_error_model(problem, in_any_order(plan), calibration);
  model.mma_block = 1;  // of P.V; the bound of scores is in the model already
  return model;
}

Reference evaluate_selected(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                            const Calibration& calibration, RowSample sample, bool exact) {
  require_known(kSelectedKnows, problem.features);
  return evaluate_visible(problem, host, selected_error_model(problem, plan, calibration),
                          sampled_rows(problem, host, plan.tile_q, sample), exact);
}

}  // namespace attnfuzz
