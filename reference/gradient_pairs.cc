#include "reference/gradient_pairs.h"

#include <algorithm>

#include "reference/numbers/formats.h"

namespace attnfuzz::gradients {
namespace {

// The number of additions of partial sums that may round. A sum without a pair is 0, and adding it is exact.
double additions(int64_t pairs, int64_t adds) {
  return static_cast<double>(adds > 0 ? std::min(adds, pairs) : pairs);
}

}  // namespace

double Terms::sum_error(int64_t pairs, int64_t blocks, int64_t adds) const {
  const double n = static_cast<double>(pairs);
  const double error =
      compound(n * product_unit + static_cast<double>(blocks) * sum_unit + additions(pairs, adds) * kU);
  return error * (1 + converted) + converted;
}

Terms make_terms(const attn_problem& problem, const attn_plan& plan, const ErrorModel& model) {
  Terms terms;
  const double u_t = model.factor_unit;
  terms.converted = (1 + u_t) * (1 + u_t) - 1;
  terms.flushed = model.flushed_factor + (1 + u_t) * model.factor_tiny;
  terms.dim_qk = static_cast<double>(problem.dim_qk);
  terms.dim_v = static_cast<double>(problem.dim_v);
  terms.product_unit = model.product_unit;
  terms.sum_unit = model.sum_unit;
  terms.score_error = model.score_gamma * (1 + terms.converted) + terms.converted;
  terms.grad_error =
      compound(model.block_error(terms.dim_v)) * (1 + terms.converted) + terms.converted + model.v_unit;
  terms.least = model.least_factor;
  const bool wide = problem.dtype == ATTN_F32;
  const auto in_input = [](int32_t format) {
    return format == ATTN_FORMAT_UNKNOWN || format == ATTN_FORMAT_OF_INPUT;
  };
  if (plan.ds_format != ATTN_FORMAT_F32 && !(wide && in_input(plan.ds_format))) {
    const Format format = numbers_of(plan.ds_format, problem.dtype);
    const double times = plan.conversion == ATTN_CONVERT_NEAREST ? 1 : 2;
    terms.s_unit = times * format.unit;
    terms.s_tiny = times * format.tiny;
    terms.s_overflow = plan.conversion == ATTN_CONVERT_NEAREST ? format.overflow : format.max;
  }
  terms.rounds_heads = problem.heads_q > problem.heads_kv && !wide && in_input(plan.head_format);
  terms.rounds_pairs = !wide && in_input(plan.head_format);
  terms.dq_adds = plan.dq_adds;
  terms.dkv_adds = plan.dkv_adds;
  return terms;
}

namespace {

// The score of a pair: x, the error of a kernel's exponent, and tanh(a / c) with its error.
struct Score {
  double x, error, tanh = 0, tanh_error = 0;
  bool bounded;
};

Score score_of(const Terms& terms, const ErrorModel& model, const Pair& in) {
  const double tau = model.scale, size = std::abs(tau), a = tau * in.dot;
  double delta = size * (terms.score_error * in.dot_size + terms.flushed * in.factors + terms.dim_qk * kFlush);
  delta += size * model.folded_unit * in.dot_size + model.folded_tiny * in.factors;
  if (model.flushes && size < kFlush) delta += size * in.dot_size;
  Score score = {.x = a + in.bias, .error = 0, .bounded = false};
  double capped = 0, shift = 0;
  if (const double c = model.softcap; c > 0) {
    score.tanh = std::tanh(a / c);
    score.x = c * score.tanh + in.bias;
    capped = c * std::abs(score.tanh);
    shift = c * (model.eps_tanh * std::abs(score.tanh) + 1.4 * kU) + 3.01 * kU * capped;
    score.tanh_error = model.eps_tanh * std::abs(score.tanh) + 2 * kU + (delta + kU * std::abs(a)) / c;
  }
  score.error = delta + shift + 3.01 * kU * (std::abs(a) + std::abs(score.x) + 2 * delta + std::abs(in.lse)) +
                3.01 * kU * std::abs(in.bias) + (1 + 3.01 * kU) * in.lse_error;
  const bool fits = model.folded_overflow == 0 || size * in.factors < model.folded_overflow;
  score.bounded = fits && in.dot_size < kOverflow && std::abs(a) + delta < kOverflow &&
                  std::abs(score.x) + score.error < kOverflow;
  return score;
}

// Adds dLSE e^(x - LSE') to dS, with its error.
void add_apart(const Terms& terms, const ErrorModel& model, Pair in, double* ds, double* s_error) {
  in.lse = in.lse_apart, in.lse_error = in.lse_apart_error;
  const Score score = score_of(terms, model, in);
  const double exponent = score.x - in.lse,
               eps = model.eps_exp + model.eps_exp_slope * (std::abs(exponent) + score.error);
  const double weight = std::exp(exponent), high = std::exp(exponent + score.error) * (1 + eps);
  const double size = std::abs(in.dlse_apart);
  const double error = size * (high * (1 + 1.01 * kU) - weight) + 2 * kFlush * (size + 1);
  *ds += in.dlse_apart * weight;
  *s_error += error + kU * (std::abs(*ds) + *s_error + error);
}

}  // namespace

Factor pair(const Terms& terms, const ErrorModel& model, const Pair& in) {
  const Score score = score_of(terms, model, in);
  const double exponent = score.x - in.lse,
               eps = model.eps_exp + model.eps_exp_slope * (std::abs(exponent) + score.error);
  Factor out;
  out.p = std::exp(exponent);
  const double high = std::exp(exponent + score.error) * (1 + eps);
  const double z = in.grad - in.delta;
  const double g = terms.grad_error * in.grad_size + terms.flushed * in.grad_factors +
                   2 * terms.dim_v * kFlush + gamma(terms.dim_v + 1, kU) * in.delta_size +
                   model.v_tiny * in.grad_factors + in.delta_error;
  const double twice = 1 + 2.01 * kU;
  double ds = out.p * z;
  double s_error =
      high * twice * (std::abs(z) + g) - out.p * std::abs(z) + 2 * kFlush * (std::abs(z) + g + 1);
  if (in.dlse_apart != 0) add_apart(terms, model, in, &ds, &s_error);
  out.s = ds;
  out.s_error = s_error;
  out.a = ds;
  out.a_error = s_error;
  out.grad_error = g;
  if (model.softcap > 0) {
    const double t = std::abs(score.tanh), e = score.tanh_error, slope = 1 - t * t;
    const double e_f = 2 * t * e + e * e + 3 * kU * (1 + e);
    out.a = ds * slope;
    out.a_error = (std::abs(ds) + s_error) * (slope + e_f) * (1 + kU) - std::abs(out.a) + kFlush;
  }
  out.p_error = high - out.p + 2 * kFlush;
  out.p_bounded = score.bounded && high < kOverflow && out.p + out.p_error < model.p_overflow;
  out.p_error += model.p_unit * (out.p + out.p_error) + model.p_tiny + terms.flushed;
  out.a_bounded = score.bounded && high < kOverflow && std::abs(z) + g < kOverflow &&
                  in.grad_size < kOverflow && in.delta_size < kOverflow &&
                  std::abs(out.a) + out.a_error < std::min(kOverflow, terms.s_overflow);
  out.a_error += terms.s_unit * (std::abs(out.a) + out.a_error) + terms.s_tiny + terms.flushed;
  return out;
}

SinkTerm sink_term(const Terms& terms, const ErrorModel& model, const SinkRow& in) {
  if (std::isinf(in.sink)) return {};
  const double exponent = in.sink - in.lse;
  const double error = in.lse_error + 3.01 * kU * (std::abs(in.sink) + std::abs(in.lse) + std::abs(exponent));
  const double eps = model.eps_exp + model.eps_exp_slope * (std::abs(exponent) + error);
  const double weight = std::exp(exponent), high = std::exp(exponent + error) * (1 + eps);
  const double off = gamma(terms.dim_v + 1, kU) * in.delta_size + terms.dim_v * kFlush + in.delta_error;
  const double size = std::abs(in.delta);
  SinkTerm term = {.value = -weight * in.delta};
  term.error = high * (1 + 1.01 * kU) * (size + off) - weight * size + 2 * kFlush * (size + off + 1);
  term.bounded = high < kOverflow && in.delta_size < kOverflow && high * (size + off) < kOverflow;
  return term;
}

WithSink with_sink(double lse_apart, double sink) {
  const double most = std::max(lse_apart, sink);
  if (std::isinf(most)) return {most, 0};
  const double lse = most + std::log1p(std::exp(std::min(lse_apart, sink) - most));
  return {lse, 0x1p-22 + 3 * kU * (std::abs(lse) + std::abs(lse_apart))};
}

Result finish(const Terms& terms, const ErrorModel& model, const Sum& in) {
  const double tau = in.scaled ? model.scale : 1, size = std::abs(tau);
  if (in.pairs == 0) return {};
  const bool sum_fits = std::abs(in.sum) + in.error < kOverflow && in.error < kOverflow * in.relative;
  if (tau == 0) return {.bounded = sum_fits};  // infinity times 0 is NaN
  const double adds = additions(in.pairs, in.adds);
  Result out;
  out.value = tau * in.sum;
  out.bound = size * (in.error + terms.flushed * in.factors + (static_cast<double>(in.pairs) + adds) * kFlush);
  if (in.scaled) out.bound += 2 * kU * (std::abs(out.value) + out.bound);
  if (model.flushes && in.scaled && size < kFlush) out.bound += std::abs(out.value);
  out.bound += model.o_unit * (std::abs(out.value) + out.bound) + model.o_tiny;
  out.bounded = sum_fits && std::abs(out.value) + out.bound < kOverflow;
  return out;
}

}  // namespace attnfuzz::gradients
