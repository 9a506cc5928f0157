// A list of blocks is a mask. The oracle of listed blocks reads the lists themselves. Here the forward pass's
// oracle gets a mask that is made from the recipe of the lists. The comparison shows errors of the oracle of
// listed blocks.
#include <algorithm>

#include "properties/operations/selected/relations/tools.h"
#include "reference/oracle.h"

namespace attnfuzz::relations {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 20;

// One byte for each (b, h, i, j), dense.
std::vector<uint8_t> mask_of(const Case& c) {
  const Problem& p = c.problem;
  const RowSpace rows(p);
  std::vector<uint8_t> mask(static_cast<size_t>(rows.count() * p.seq_k));
  for (int64_t row = 0; row < rows.count(); ++row) {
    const auto [b, h, i] = rows.at(row);
    for (int64_t j = 0; j < p.seq_k; ++j) mask[static_cast<size_t>(row * p.seq_k + j)] = sees(c, b, h, i, j);
  }
  return mask;
}

void check_selected_as_mask(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || !trial.laid_out()) return;
  const Case& c = base->c;
  const Problem& p = c.problem;
  if (static_cast<double>(RowSpace(p).count()) * static_cast<double>(p.seq_k) > static_cast<double>(kMostPairs))
    return;
  std::vector<uint8_t> mask = mask_of(c);
  const LaidOut& laid = trial.laid_out()->laid;
  attn_problem forward = laid.problem();
  attn_tensors tensors = laid.tensors();
  forward.features &= ~ATTN_FEATURE_SELECTED;
  forward.block = forward.select = 0;
  forward.has_mask = 1;
  forward.causal = 0;  // the mask hides these keys already
  tensors.indices = {};
  tensors.mask = {mask.data(), {p.heads_q * p.seq_q * p.seq_k, p.seq_q * p.seq_k, p.seq_k, 1}};
  attn_plan plan = base->plan;
  plan.key_order = ATTN_KEYS_ANY, plan.max_rule = ATTN_MAX_UNKNOWN, plan.sum_lanes = 0;
  const Reference due = evaluate(forward, tensors, plan, trial.calibration());
  Verdict& v = trial.verdict();
  if (!judge_outputs(operations::forward, due, p, plan, base->calls[0], v))
    v.message = "against the forward pass with the lists as a mask: " + v.message;
}

}  // namespace

extern const Property selected_as_mask = {"selected_as_mask",
                                          "listed blocks give what a mask of these blocks gives",
                                          any_case,
                                          check_selected_as_mask,
                                          /*needs_stages=*/false,
                                          /*asks_target=*/true,
                                          /*compares=*/true,
                                          /*operation=*/&operations::selected};

}  // namespace attnfuzz::relations
