#include "reference/merge.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/numbers/formats.h"
#include "reference/rows/merged_rows.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

struct Side {
  const attn_tensor& o;
  const attn_tensor& lse;
};

class Merge {
 public:
  Merge(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model, Reference* out)
      : problem_(problem),
        sides_{{host.o1, host.lse1}, {host.o2, host.lse2}},
        model_(model),
        out_(*out),
        merged_(model, out),
        unseen_(static_cast<size_t>(problem.dim_v)) {}

  void row(int64_t row) {
    const Row at = RowSpace(problem_).at(row);
    free_.clear();
    merged_.begin(row);
    for (const Side& side : sides_) {
      const double lse = decode(ATTN_F32, side.lse.data, offset_of(side.lse, at.b, at.h, at.i, 0));
      const bool dead = lse == -kInfinity || (lse == model_.dead_lse && std::isinf(lse));
      read(side.o, at, dead ? unseen_.data() : merged_.add_side(lse * model_.log_unit));
      if (dead) note_non_finite();
    }
    merged_.end();
    Expected& o = out_[TensorId::kO];
    for (const int64_t column : free_) {
      const auto element = static_cast<size_t>(row * o.columns + column);
      o.rule[element] = static_cast<uint8_t>(Due::kAnything);
      o.bound[element] = kInfinity;
    }
  }

 private:
  void read(const attn_tensor& o, const Row& at, double* to) const {
    decode_strided(problem_.dtype, o.data, offset_of(o, at.b, at.h, at.i, 0), o.stride[3], problem_.dim_v, to);
  }
  // A kernel may multiply O of a side that saw no key by 0, and 0 times NaN is NaN.
  void note_non_finite() {
    if (model_.isolates_masked_nan) return;
    for (size_t column = 0; column < unseen_.size(); ++column) {
      if (!std::isfinite(unseen_[column])) free_.push_back(static_cast<int64_t>(column));
    }
  }

  const attn_problem& problem_;
  const Side sides_[2];
  const ErrorModel& model_;
  Reference& out_;
  MergedRows merged_;
  std::vector<double> unseen_;  // O of a side that saw no key
  std::vector<int64_t> free_;   // columns of the row that may be anything
};

}  // namespace

// The two partials are inputs, so they have no error. Of a forward pass's roundings only the merge's remain.
ErrorModel merge_error_model(const attn_problem& problem, const attn_plan& of, const Calibration& calibration) {
  attn_plan plan = of;
  plan.num_splits = 1;
  plan.merges = 2;
  plan.tile_k = 1;
  plan.partial_format = ATTN_FORMAT_F32;
  ErrorModel model = make_error_model(problem, plan, calibration);
  model.p_predicted = ATTN_NONE;  // there is no P
  // The result of two sides that saw no key has their LSE. Only -inf and +inf mark such a side.
  if (model.dead_lse == 0) model.dead_lse = -kInfinity;
  std::erase_if(model.assumptions, [](const Assumption& one) {
    using enum Assumption::Part;
    return one.part != kExp && one.part != kLog && one.part != kReciprocal;
  });
  return model;
}

Reference evaluate_merge(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                         const Calibration& calibration, RowSample sample) {
  require_known(kMergeKnows, problem.features);
  const ErrorModel model = merge_error_model(problem, plan, calibration);
  attn_problem forward = problem;
  forward.features &= ~(ATTN_FEATURE_MERGE | ATTN_FEATURE_IN_PLACE);
  // Evaluating no row gives a result of the right shape.
  Reference out = evaluate_keys(forward, {}, model, {}, 0, 0);
  Merge merge(problem, host, model, &out);
  for (const int64_t row : sampled_rows(problem, host, plan.tile_q, sample)) merge.row(row);
  return out;
}

}  // namespace attnfuzz
