#include "reference/nsa/compression.h"

#include <algorithm>
#include <cmath>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

// The error model of a forward pass. A mean uses only the errors of sums and of a reciprocal.
ErrorModel error_model(const attn_problem& problem, const attn_plan& plan, const Calibration& calibration) {
  ErrorModel model = make_error_model(problem, plan, calibration);
  std::erase_if(model.assumptions, [](const Assumption& one) {
    using enum Assumption::Part;
    return one.part != kAccumulator && one.part != kMmaBlock && one.part != kReciprocal;
  });
  return model;
}

// The means over blocks of K or of V.
class Means {
 public:
  Means(const attn_problem& problem, const attn_tensors& host, const attn_tensor& keys, int64_t columns,
        const ErrorModel& model, TensorId tensor, Reference* out)
      : problem_(problem),
        sequences_(problem, host),
        keys_(keys),
        columns_(columns),
        model_(model),
        tensor_(tensor),
        out_(*out) {
    const auto length = static_cast<double>(problem.key_offset + 1);
    error_ = compound(model.block_error(length)) + model.eps_reciprocal + 2 * kU;
    key_.resize(static_cast<size_t>(columns));
  }

  // Returns false if a column may be anything.
  bool row(int64_t row, const Row& at) {
    const int64_t length = problem_.key_offset + 1, first = at.i * problem_.key_step;
    sum_.assign(static_cast<size_t>(columns_), 0);
    moduli_.assign(static_cast<size_t>(columns_), 0);
    for (int64_t j = first; j < first + length; ++j) {
      const StoredRow from = sequences_.key_row(at.b, j);
      decode_strided(problem_.dtype, keys_.data, offset_of(keys_, from.entry, at.h, from.row, 0), keys_.stride[3],
                     columns_, key_.data());
      for (size_t c = 0; c < key_.size(); ++c) sum_[c] += key_[c], moduli_[c] += std::abs(key_[c]);
    }
    bool bounded = true;
    for (size_t c = 0; c < key_.size(); ++c)
      bounded &= write(static_cast<size_t>(row * columns_) + c, sum_[c], moduli_[c], static_cast<double>(length));
    return bounded;
  }

 private:
  bool write(size_t to, double sum, double moduli, double length) {
    Expected& out = out_[tensor_];
    if (std::isnan(moduli) || !(moduli < kOverflow)) {
      out.bound[to] = kInfinity;
      out.rule[to] = static_cast<uint8_t>(std::isnan(moduli) ? Due::kMustBeNaN : Due::kAnything);
      return std::isnan(moduli);
    }
    out.value[to] = sum / length;
    out.rule[to] = static_cast<uint8_t>(Due::kNumber);
    double& bound = out.bound[to];
    bound = 0;
    if (moduli == 0) return true;
    bound = error_ * std::max(moduli, model_.least_value) / length + (length + 2) * (model_.flushes ? kFlush : 0x1p-149);
    bound += model_.o_unit * (std::abs(out.value[to]) + bound) + model_.o_tiny;
    return true;
  }

  const attn_problem& problem_;
  const Sequences sequences_;
  const attn_tensor& keys_;
  int64_t columns_;
  const ErrorModel& model_;
  TensorId tensor_;
  Reference& out_;
  double error_ = 0;                         // relative to the mean of moduli
  std::vector<double> key_, sum_, moduli_;  // by column
};

}  // namespace

Reference evaluate_compression(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                               const Calibration& calibration, RowSample sample, bool) {
  require_known(kCompressionKnows, problem.features);
  const ErrorModel model = error_model(problem, plan, calibration);
  const RowSpace rows(problem);
  Reference due;
  due.rows = rows.count();
  due.state.assign(static_cast<size_t>(due.rows), RowState::kSkipped);
  due.assumptions = model.assumptions;
  for (const auto& [tensor, columns] : {std::pair{TensorId::kKCmp, problem.dim_qk}, {TensorId::kVCmp, problem.dim_v}})
    due.outputs.push_back(unset_output(tensor, columns, due.rows * columns, output_overflow(model)));
  Means keys(problem, host, host.k, problem.dim_qk, model, TensorId::kKCmp, &due);
  Means values(problem, host, host.v, problem.dim_v, model, TensorId::kVCmp, &due);
  std::vector<int64_t> judged = sampled_rows(problem, host, plan.tile_q, sample);
  for (const int64_t row : take_absent(problem, host, &judged)) due.state[static_cast<size_t>(row)] = RowState::kAbsent;
  for (const int64_t row : judged) {
    const Row at = rows.at(row);
    RowState& state = due.state[static_cast<size_t>(row)];
    ++due.sampled;
    // at.i * key_step may be more than 2^63.
    const int64_t beyond = key_range(problem, host, at.b, at.i).last - problem.key_offset;
    if (beyond <= 0 || at.i > (beyond - 1) / problem.key_step) {
      for (Expected& out : due.outputs) out.fill_row(row, Due::kNumber, 0, 0);
      state = RowState::kDead;
      ++due.dead;
      continue;
    }
    const bool bounded = keys.row(row, at), also = values.row(row, at);
    state = bounded && also ? RowState::kBounded : RowState::kUnconstrained;
    due.unconstrained += !(bounded && also);
  }
  return due;
}

}  // namespace attnfuzz
