// One pair of a query and a key in a backward pass, and one element of a gradient at the end: the formulas of
// gradients.h. gradients.cc adds up their results on the CPU, cuda/gradients.cu on a GPU.
//
//   const Terms terms = make_terms(problem, plan, model);
//   const Factor f = pair(terms, model, inputs);         // dA and P with their errors
//   const Result dq = finish(terms, model, sum, ...);
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/both.h"
#include "reference/model/error_model.h"
#include "reference/numbers/ratio.h"

namespace attnfuzz::gradients {

// A rule for an element that its number does not express. If two rules meet in a sum, the larger
// one wins.
enum Taint : uint8_t { kPure = 0, kFree = 1, kNaNDue = 2 };

ATTN_BOTH inline Taint taint_of(double x) { return std::isnan(x) ? kNaNDue : std::isinf(x) ? kFree : kPure; }

// Numbers that are the same for all pairs.
struct Terms {
  double score_error = 0, grad_error = 0;  // g of q.k and of dO.v
  double converted = 0;                    // (1 + u_T)^2 - 1
  double flushed = 0;                      // a factor of a product may lose this
  double dim_qk = 0, dim_v = 0;
  double s_unit = 0, s_tiny = 0, s_overflow = kOverflow;  // of the format of dA as a factor
  double least = 0;  // a non-zero 16-bit factor below this is aligned as if it had this size
  bool rounds_heads = false;
  bool rounds_pairs = false;            // dS of a pair is rounded to the input's format before it goes to dbias
  double bias_unit = 0, bias_tiny = 0;  // of the format of dbias
  int64_t dq_adds = 0, dkv_adds = 0;    // 0: as many as pairs
  double product_unit = 0, sum_unit = 0;

  // The relative error of a sum over pairs that see each other.
  ATTN_BOTH double sum_error(int64_t pairs, int64_t blocks, int64_t adds) const;
  // The same of dK, if its factor Q may have the scale folded in. `relative`: sum_error().
  ATTN_BOTH double folded(const ErrorNumbers& model, double relative) const {
    return relative + model.folded_unit * (1 + relative);
  }
  ATTN_BOTH double raised(double size) const { return size > 0 && size < least ? least : size; }
};

// The block of the mma that a key or a query is in. Blocks are counted from the first key of a tile.
ATTN_BOTH inline int64_t block_of(int64_t index, int64_t tile, int64_t mma_block) {
  const int64_t blocks = (tile + mma_block - 1) / mma_block;
  return index / tile * blocks + index % tile / mma_block;
}

struct Pair {
  double dot, dot_size;                   // q.k and sum|q k|
  double factors, most_q;                 // sum|q| + sum|k|; max|q|
  double bias, lse;                       // natural
  double grad, grad_size;                 // dO.v and sum|dO v|
  double grad_factors;                    // sum|dO| + sum|v|
  double delta, delta_size;               // D and sum|dO o|
  double delta_factors = 0;               // sum|dO| + sum|o|
  double lse_error = 0, delta_error = 0;  // of a kernel that computes O and LSE by itself
  // If dLSE is the gradient of an LSE without the sink: dLSE, that LSE and its error. Otherwise dLSE is a part
  // of `delta`.
  bool apart = false;
  double dlse_apart = 0, lse_apart = 0, lse_apart_error = 0;
};

struct Factor {
  double s = 0, s_error = 0;                // dS and E^S
  double a = 0, a_error = 0;                // dA and E^A
  double p = 0, p_error = 0;                // P and E^P
  double grad_error = 0;                    // G
  bool a_bounded = true, p_bounded = true;  // false: an intermediate may overflow
};

ATTN_BOTH inline Factor pair(const Terms& terms, const ErrorNumbers& model, const Pair& in);

// A query's term of dsink, -e^(sink - lam) D, with its error.
struct SinkTerm {
  double value = 0, error = 0;
  bool bounded = true;
};
struct SinkRow {
  double sink, lse, lse_error;            // natural; a sink of -infinity is none
  double delta, delta_size, delta_error;  // D, sum|dO o| + |dLSE|, and the further error of D
  double delta_factors;                   // sum|dO| + sum|o|
};
ATTN_BOTH inline SinkTerm sink_term(const Terms& terms, const ErrorNumbers& model, const SinkRow& in);

// The natural LSE with the sink, computed from one without it, and its error. The error of a stored LSE counts
// as much as it weighs: one far below the sink, or -infinity, does not matter.
struct WithSink {
  double lse, error;
};
ATTN_BOTH inline WithSink with_sink(double lse_apart, double sink);

struct Result {
  double value = 0, bound = 0;
  bool bounded = true;  // false: an intermediate may overflow
};

// This is due of an element of an output.
struct Element {
  double value, bound;
  Due due;
};
ATTN_BOTH inline Element element_of(const Result& result, Taint taint);

// `sum` and `error`: without the scale; `relative`: the part of `error` for each unit of the moduli' sum.
// `factors`: the sum of |dA| or P, which counts if numbers are flushed. `of_q`: the other factor is Q, which a
// kernel may have scaled.
struct Sum {
  double sum, error, relative, factors;
  int64_t pairs, adds;
  bool scaled, of_q = false;
};
ATTN_BOTH inline Result finish(const Terms& terms, const ErrorNumbers& model, const Sum& in);

// A sum of terms in fp32, in any order.
struct TermSum {
  double value = 0, error = 0, moduli = 0;
  int64_t terms = 0;
  Taint taint = kPure;

  ATTN_BOTH void add(double term, double its_error) {
    value += term;
    error += its_error;
    moduli += std::abs(term) + its_error;
    ++terms;
  }
  ATTN_BOTH void mark(Taint is) { taint = std::max(taint, is); }
  // The element of an output in a format of this error. `adds`: additions that may round.
  ATTN_BOTH Element element(double unit, double tiny, int64_t adds) const;
};

// add_to_bias() adds dS of a pair to an element of dbias; bias_element() gives the element and its bound
// (gradient_sums.h).
ATTN_BOTH inline void add_to_bias(const Terms& terms, const ErrorNumbers& model, double s, double s_error,
                                  TermSum* sum);
ATTN_BOTH inline Element bias_element(const Terms& terms, const TermSum& sum);

// ---------------------------------------------------------------- the formulas

// The number of additions of partial sums that may round. A sum without a pair is 0, and adding it is exact.
ATTN_BOTH inline double additions(int64_t pairs, int64_t adds) {
  return static_cast<double>(adds > 0 ? std::min(adds, pairs) : pairs);
}

ATTN_BOTH inline double Terms::sum_error(int64_t pairs, int64_t blocks, int64_t adds) const {
  const double n = static_cast<double>(pairs);
  const double error =
      compound(n * product_unit + static_cast<double>(blocks) * sum_unit + additions(pairs, adds) * kU);
  return error * (1 + converted) + converted;
}

// The score of a pair: x, the error of a kernel's exponent, and tanh(a / c) with its error.
struct Score {
  double x, error, tanh = 0, tanh_error = 0;
  bool bounded;
};

// True if e^(x - lam) is a number. A score that overflows downwards has a weight of 0 as long as the LSE is a
// number by any arithmetic, so that -inf is not subtracted from -inf. Such are the keys that a bias of the
// lowest finite number hides from a row with other keys.
ATTN_BOTH inline bool weighs(double x, double error, double lam, double lam_error) {
  return std::abs(x) + error < kOverflow ||
         (x < 0 && std::abs(lam) + lam_error < kOverflow / std::numbers::log2e);
}

ATTN_BOTH inline Score score_of(const Terms& terms, const ErrorNumbers& model, const Pair& in) {
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
  // The scale may be folded into Q together with log2 e.
  const bool fits =
      model.folded_overflow == 0 || size * in.most_q * std::numbers::log2e < model.folded_overflow;
  score.bounded = fits && in.dot_size < kOverflow && std::abs(a) + delta < kOverflow &&
                  weighs(score.x, score.error, in.lse, in.lse_error);
  return score;
}

// Adds dLSE e^(x - LSE') to dS, with its error. False if an intermediate may overflow: also if dLSE is 0.
ATTN_BOTH inline bool add_apart(const Terms& terms, const ErrorNumbers& model, Pair in, double* ds,
                                double* s_error) {
  in.lse = in.lse_apart, in.lse_error = in.lse_apart_error;
  const Score score = score_of(terms, model, in);
  if (in.dlse_apart == 0) return score.bounded;
  const double exponent = score.x - in.lse,
               eps = model.eps_exp + model.eps_exp_slope * (std::abs(exponent) + score.error);
  const double weight = std::exp(exponent), high = std::exp(exponent + score.error) * (1 + eps);
  const double size = std::abs(in.dlse_apart);
  const double error = size * (high * (1 + 1.01 * kU) - weight) + 2 * kFlush * (size + 1);
  *ds += in.dlse_apart * weight;
  *s_error += error + kU * (std::abs(*ds) + *s_error + error);
  return score.bounded;
}

ATTN_BOTH inline Factor pair(const Terms& terms, const ErrorNumbers& model, const Pair& in) {
  const Score score = score_of(terms, model, in);
  const double exponent = score.x - in.lse,
               eps = model.eps_exp + model.eps_exp_slope * (std::abs(exponent) + score.error);
  Factor out;
  out.p = std::exp(exponent);
  const double high = std::exp(exponent + score.error) * (1 + eps);
  const double z = in.grad - in.delta;
  const double g = terms.grad_error * in.grad_size + terms.flushed * in.grad_factors +
                   2 * terms.dim_v * kFlush + gamma(terms.dim_v + 1, kU) * in.delta_size +
                   model.v_tiny * in.grad_factors + model.flushed_factor * in.delta_factors + in.delta_error;
  const double twice = 1 + 2.01 * kU;
  double ds = out.p * z;
  double s_error = high * twice * (std::abs(z) + g) - out.p * std::abs(z) + 2 * kFlush * (std::abs(z) + g + 1);
  const bool apart_bounded = !in.apart || add_apart(terms, model, in, &ds, &s_error);
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
  const double most = out.p + out.p_error;
  const bool own = model.p_order == ATTN_P_NORMALISED && model.p_to_nearest;
  out.p_error += model.p_unit * most + (own ? std::min(model.p_tiny, most) : model.p_tiny) + terms.flushed;
  out.a_bounded = score.bounded && apart_bounded && high < kOverflow && std::abs(z) + g < kOverflow &&
                  in.grad_size < kOverflow && in.delta_size < kOverflow &&
                  std::abs(out.a) + out.a_error < kOverflow && std::abs(out.a) + out.a_error < terms.s_overflow;
  out.a_error += terms.s_unit * (std::abs(out.a) + out.a_error) + terms.s_tiny + terms.flushed;
  return out;
}

ATTN_BOTH inline SinkTerm sink_term(const Terms& terms, const ErrorNumbers& model, const SinkRow& in) {
  if (std::isinf(in.sink)) return {};
  const double exponent = in.sink - in.lse;
  const double error = in.lse_error + 3.01 * kU * (std::abs(in.sink) + std::abs(in.lse) + std::abs(exponent));
  const double eps = model.eps_exp + model.eps_exp_slope * (std::abs(exponent) + error);
  const double weight = std::exp(exponent), high = std::exp(exponent + error) * (1 + eps);
  const double off = gamma(terms.dim_v + 1, kU) * in.delta_size + terms.dim_v * kFlush +
                     model.flushed_factor * in.delta_factors + in.delta_error;
  const double size = std::abs(in.delta);
  SinkTerm term = {.value = -weight * in.delta};
  term.error = high * (1 + 1.01 * kU) * (size + off) - weight * size + 2 * kFlush * (size + off + 1);
  term.bounded = high < kOverflow && in.delta_size < kOverflow && high * (size + off) < kOverflow;
  return term;
}

ATTN_BOTH inline WithSink with_sink(double lse_apart, double sink) {
  const double most = std::max(lse_apart, sink);
  if (std::isinf(most)) return {most, 0};
  const double lse = most + std::log1p(std::exp(std::min(lse_apart, sink) - most));
  double stored = 3 * kU * std::abs(lse_apart);
  if (lse_apart < sink) {
    const double below = lse_apart - sink, off = stored + 3 * kU * std::abs(lse);
    const double weight = std::isinf(lse_apart) ? 0 : std::exp(below + off);
    // The growth of ln(1 + e^below) by an error of `below`.
    stored = std::min(stored, std::log1p(weight) - std::log1p(std::exp(below)));
  }
  return {lse, 0x1p-22 + 3 * kU * std::abs(lse) + stored};
}

ATTN_BOTH inline Result finish(const Terms& terms, const ErrorNumbers& model, const Sum& in) {
  const double tau = in.scaled ? model.scale : 1, size = std::abs(tau);
  if (in.pairs == 0) return {};
  const bool sum_fits = std::abs(in.sum) + in.error < kOverflow && in.error < kOverflow * in.relative;
  if (tau == 0) return {.bounded = sum_fits};  // infinity times 0 is NaN
  const double adds = additions(in.pairs, in.adds);
  Result out;
  out.value = tau * in.sum;
  out.bound = size * (in.error + terms.flushed * in.factors + (static_cast<double>(in.pairs) + adds) * kFlush);
  if (in.of_q && model.folded_unit > 0) out.bound += (model.folded_tiny + model.flushed_factor) * in.factors;
  if (in.scaled) out.bound += 2 * kU * (std::abs(out.value) + out.bound);
  if (model.flushes && in.scaled && size < kFlush) out.bound += std::abs(out.value);
  out.bound += model.o_unit * (std::abs(out.value) + out.bound) + model.o_tiny;
  out.bounded = sum_fits && std::abs(out.value) + out.bound < kOverflow;
  return out;
}

ATTN_BOTH inline Element element_of(const Result& result, Taint taint) {
  if (taint == kPure && result.bounded) return {result.value, result.bound, Due::kNumber};
  return {0, kInfinity, taint == kNaNDue ? Due::kMustBeNaN : Due::kAnything};
}

ATTN_BOTH inline Element TermSum::element(double unit, double tiny, int64_t adds) const {
  double bound = error + gamma(static_cast<double>(adds), kU) * moduli + static_cast<double>(terms) * kFlush;
  if (terms > 0) bound += unit * (std::abs(value) + bound) + tiny;
  return element_of({value, bound, moduli < kOverflow && bound < kOverflow}, taint);
}

ATTN_BOTH inline void add_to_bias(const Terms& terms, const ErrorNumbers& model, double s, double s_error,
                                  TermSum* sum) {
  double error = s_error;
  if (terms.rounds_pairs) {
    error += model.o_unit * (std::abs(s) + error) + model.o_tiny;
    if (!(std::abs(s) + error < model.overflow)) sum->mark(kFree);
  }
  sum->add(s, error);
}

ATTN_BOTH inline Element bias_element(const Terms& terms, const TermSum& sum) {
  return sum.element(terms.bias_unit, terms.bias_tiny, std::max<int64_t>(sum.terms - 1, 0));
}

}  // namespace attnfuzz::gradients
