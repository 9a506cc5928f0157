#include "reference/nsa/combination.h"

#include <array>
#include <cmath>

#include "reference/call/row_space.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz {
namespace {

constexpr int kSides = 3;

// An element of O.
struct Element {
  double value = 0, bound = 0;
  Due due = Due::kNumber;
};

// The rounding of products and of their sum.
struct SumRounding {
  double unit, tiny, overflow;
};

SumRounding sum_rounding_of(const ErrorModel& model) {
  if (model.merge_by_maximum) return {model.o_unit, model.o_tiny, model.overflow};
  return {kU, model.flushes ? kFlush : 0x1p-149, kOverflow};
}

// The error of a product if a factor below kFlush counts as 0.
double flushed(const ErrorModel& model, double gate, double o) {
  if (!model.flushes) return 0;
  const bool small = (gate != 0 && std::abs(gate) < kFlush) || (o != 0 && std::abs(o) < kFlush);
  return small ? std::abs(gate * o) : 0;
}

Element element_of(const ErrorModel& model, const std::array<double, kSides>& gates,
                   const std::array<double, kSides>& os) {
  const SumRounding rounding = sum_rounding_of(model);
  Element made;
  double moduli = 0, lost = 0;
  bool nan = false, free = false;
  for (size_t s = 0; s < kSides; ++s) {
    const bool may_close = gates[s] != 0 && model.flushes && std::abs(gates[s]) < kFlush;
    if ((gates[s] == 0 || may_close) && !std::isfinite(os[s])) {
      free |= may_close || !model.isolates_masked_nan;
      continue;
    }
    nan |= std::isnan(gates[s]) || std::isnan(os[s]);
    free |= std::isinf(gates[s]) || std::isinf(os[s]);
    made.value += gates[s] * os[s];
    moduli += std::abs(gates[s] * os[s]);
    lost += flushed(model, gates[s], os[s]);
  }
  if (nan) return {.value = 0, .bound = kInfinity, .due = Due::kMustBeNaN};
  if (free || moduli >= rounding.overflow) return {.value = 0, .bound = kInfinity, .due = Due::kAnything};
  if (moduli == 0) return made;
  made.bound = gamma(kSides, rounding.unit) * moduli + lost + 2 * kSides * rounding.tiny;
  made.bound += model.o_unit * (std::abs(made.value) + made.bound) + model.o_tiny;
  return made;
}

class Combination {
 public:
  Combination(const attn_problem& problem, const attn_tensors& host, const ErrorModel& model, Reference* out)
      : problem_(problem), sides_{host.o1, host.o2, host.o3}, gates_(host.gates), model_(model), out_(*out) {
    for (std::vector<double>& values : values_) values.resize(static_cast<size_t>(problem.dim_v));
  }

  void row(int64_t row) {
    const Row at = RowSpace(problem_).at(row);
    std::array<double, kSides> gates, os;
    for (size_t s = 0; s < kSides; ++s) {
      const attn_tensor& side = sides_[s];
      gates[s] = decode(problem_.dtype, gates_.data, offset_of(gates_, at.b, at.h, at.i, static_cast<int64_t>(s)));
      decode_strided(problem_.dtype, side.data, offset_of(side, at.b, at.h, at.i, 0), side.stride[3], problem_.dim_v,
                     values_[s].data());
    }
    Expected& o = out_[TensorId::kO];
    bool free = false;
    for (int64_t c = 0; c < problem_.dim_v; ++c) {
      for (size_t s = 0; s < kSides; ++s) os[s] = values_[s][static_cast<size_t>(c)];
      const Element element = element_of(model_, gates, os);
      const auto to = static_cast<size_t>(row * o.columns + c);
      o.value[to] = element.value, o.bound[to] = element.bound, o.rule[to] = static_cast<uint8_t>(element.due);
      free |= element.due == Due::kAnything;
    }
    ++out_.sampled;
    out_.unconstrained += free;
    out_.state[static_cast<size_t>(row)] = free ? RowState::kUnconstrained : RowState::kBounded;
  }

 private:
  const attn_problem& problem_;
  const attn_tensor sides_[kSides];
  const attn_tensor& gates_;
  const ErrorModel& model_;
  Reference& out_;
  std::vector<double> values_[kSides];  // a row of each side
};

}  // namespace

Reference evaluate_combination(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                               const Calibration& calibration, RowSample sample, bool) {
  require_known(kCombinationKnows, problem.features);
  const ErrorModel model = make_error_model(problem, plan, calibration);
  Reference due;
  due.rows = RowSpace(problem).count();
  due.state.assign(static_cast<size_t>(due.rows), RowState::kSkipped);
  due.outputs.push_back(unset_output(TensorId::kO, problem.dim_v, due.rows * problem.dim_v, output_overflow(model)));
  Combination combination(problem, host, model, &due);
  for (const int64_t row : sampled_rows(problem, host, plan.tile_q, sample)) combination.row(row);
  return due;
}

}  // namespace attnfuzz
