// Compares the gradients of the oracle with complex-step derivatives of the forward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/gradients/gradients.h"
#include "reference/model/error_cap.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "tests/reference/gradients/gradient_case.h"
#include "tests/reference/random.h"

namespace attnfuzz {
namespace {

using Complex = std::complex<double>;

// The inputs that a loss depends on.
struct Inputs {
  std::vector<Complex> q, k, v, bias, sink;
};

// sum dO O + dLSE LSE for these inputs, with O and LSE computed in double.
Complex loss(Small& s, const Inputs& in) {
  const auto& [q, k, v, bias, sink] = in;
  const attn_problem& p = s.p;
  const attn_tensors t = s.tensors();
  Complex all = 0;
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads_q; ++h)
      for (int64_t i = 0; i < p.seq_q; ++i) {
        row_keys(p, t, b, h, i, 0, p.seq_k, &keys);
        Complex sum = 0, weighted = 0;
        for (const int64_t j : keys) {
          Complex x = 0, value = 0;
          for (int64_t d = 0; d < p.dim_qk; ++d)
            x += q[s.q_at(b, h, i) * p.dim_qk + d] * k[s.k_at(b, h, j) * p.dim_qk + d];
          x *= static_cast<double>(p.scale);
          if (p.softcap > 0) x = double{p.softcap} * std::tanh(x / double{p.softcap});
          if (p.bias_dtype != ATTN_NONE) x += bias[s.pair_at(b, h, i, j)];
          for (int64_t c = 0; c < p.dim_v; ++c)
            value += double{s.dout.number[s.q_at(b, h, i) * p.dim_v + c]} * v[s.k_at(b, h, j) * p.dim_v + c];
          sum += std::exp(x);
          weighted += std::exp(x) * value;
        }
        const Complex apart = sum;
        if (s.has(ATTN_FEATURE_DSINK)) sum += std::exp(sink[static_cast<size_t>(h)]);
        if (!keys.empty()) all += weighted / sum;
        const Complex of_lse = s.plan.lse_sink != 0 ? apart : sum;
        if (s.has(ATTN_FEATURE_DLSE) && of_lse != 0.0)
          all += double{s.dlse[s.q_at(b, h, i)]} * std::log(of_lse);
      }
  return all;
}

Inputs inputs_of(const Small& s) {
  const auto complex = [](const auto& x) { return std::vector<Complex>(x.begin(), x.end()); };
  return {complex(s.q.number), complex(s.k.number), complex(s.v.number), complex(s.bias), complex(s.sinks)};
}

// The sum of the moduli of the terms of each element. Rounding errors are relative to it.
struct Moduli {
  std::vector<double> dq, dk, dv, dbias, dsink;

  Moduli(Small& s, const std::vector<double>& o, const std::vector<double>& lse) {
    const attn_problem& p = s.p;
    const attn_tensors t = s.tensors();
    dq.assign(s.q.number.size(), 0), dk.assign(s.k.number.size(), 0), dv.assign(s.v.number.size(), 0);
    dbias.assign(s.bias.size(), 0), dsink.assign(s.sinks.size(), 0);
    std::vector<int64_t> keys;
    for (size_t row = 0; row < s.rows(); ++row) {
      const Row at = RowSpace(p).at(static_cast<int64_t>(row));
      row_keys(p, t, at.b, at.h, at.i, 0, p.seq_k, &keys);
      const double dlse = s.has(ATTN_FEATURE_DLSE) ? std::abs(double{s.dlse[row]}) : 0;
      double delta = dlse;
      for (int64_t c = 0; c < p.dim_v; ++c)
        delta += std::abs(double{s.dout.number[row * p.dim_v + c]} * o[row * p.dim_v + c]);
      dsink[static_cast<size_t>(at.h)] += std::exp(s.sink(at.h) - lse[row]) * delta;
      // The LSE without the sink is a difference of two numbers.
      const double apart = lse[row] + std::log1p(-std::exp(s.sink(at.h) - lse[row]));
      const double lost = s.plan.lse_sink != 0 ? std::exp(2 * (lse[row] - apart)) : 1;
      for (const int64_t j : keys) {
        const size_t key = s.k_at(at.b, at.h, j);
        double x = 0, z = dlse * lost;
        for (int64_t d = 0; d < p.dim_qk; ++d)
          x += double{s.q.number[row * p.dim_qk + d]} * s.k.number[key * p.dim_qk + d];
        x *= p.scale;
        if (p.softcap > 0) x = p.softcap * std::tanh(x / p.softcap);
        if (p.bias_dtype != ATTN_NONE) x += s.bias[s.pair_at(at.b, at.h, at.i, j)];
        const double weight = std::exp(x - lse[row]);
        for (int64_t c = 0; c < p.dim_v; ++c) {
          const double dout = std::abs(double{s.dout.number[row * p.dim_v + c]});
          z += dout * (std::abs(double{s.v.number[key * p.dim_v + c]}) + std::abs(o[row * p.dim_v + c]));
          dv[key * p.dim_v + c] += weight * dout;
        }
        dbias[s.pair_at(at.b, at.h, at.i, j)] += weight * z;
        for (int64_t d = 0; d < p.dim_qk; ++d) {
          const double a = std::abs(double{p.scale}) * weight * z;
          dq[row * p.dim_qk + d] += a * std::abs(double{s.k.number[key * p.dim_qk + d]});
          dk[key * p.dim_qk + d] += a * std::abs(double{s.q.number[row * p.dim_qk + d]});
        }
      }
    }
  }
};

// The elements of a tensor that change together: one element, or all bias elements that share one element of
// dbias.
std::vector<size_t> together(const Small& s, TensorId tensor, size_t at) {
  if (tensor != TensorId::kDbias) return {at};
  const attn_problem& p = s.p;
  std::vector<size_t> all;
  const auto keys = static_cast<size_t>(p.seq_k);
  const Row one = RowSpace(p).at(static_cast<int64_t>(at / keys));
  for (size_t row = 0; row < s.rows(); ++row) {
    const auto [b, h, i] = RowSpace(p).at(static_cast<int64_t>(row));
    const bool same = (s.summed[0] || b == one.b) && (s.summed[1] || h == one.h) && (s.summed[2] || i == one.i);
    if (same) all.push_back(row * keys + at % keys);
  }
  return all;
}

// Compares some elements of each gradient with complex-step derivatives.
void expect_derivatives(Small& s, uint64_t seed, int64_t* unequal, double* worst) {
  constexpr double kStep = 1e-40;
  const auto [o, lse] = s.save();
  std::vector<double> apart(lse.size());
  for (size_t row = 0; row < lse.size(); ++row)
    apart[row] = lse[row] + std::log1p(-std::exp(s.sink(RowSpace(s.p).at(static_cast<int64_t>(row)).h) - lse[row]));
  const ExactRows exact = {.o = o.data(), .lse = lse.data(), .lse_apart = apart.data()};
  const Reference r = evaluate_gradients(s.p, s.tensors(), s.plan, documented(), {}, &exact);
  const Moduli moduli(s, o, lse);
  Inputs in = inputs_of(s);
  Random random(seed);
  for (const auto& [tensor, by, sizes] :
       {std::tuple{TensorId::kDq, &in.q, &moduli.dq}, std::tuple{TensorId::kDk, &in.k, &moduli.dk},
        std::tuple{TensorId::kDv, &in.v, &moduli.dv}, std::tuple{TensorId::kDbias, &in.bias, &moduli.dbias},
        std::tuple{TensorId::kDsink, &in.sink, &moduli.dsink}}) {
    if (!gives(r, tensor)) continue;
    for (int n = 0; n < 12; ++n) {
      const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(by->size())));
      const std::vector<size_t> group = together(s, tensor, at);
      const std::vector<Complex> before = *by;
      double size = 0;
      for (const size_t one : group) (*by)[one] += Complex(0, kStep), size += (*sizes)[one];
      const double derivative = loss(s, in).imag() / kStep;
      *by = before;
      ASSERT_EQ(r[tensor].rule[at], 0);
      const double difference = std::abs(r[tensor].value[at] - derivative);
      if (difference == 0) continue;
      const double apart = difference / size;
      *worst = std::max(*worst, apart);
      ++*unequal;
      ASSERT_LE(apart, 1e-13) << "seed " << seed << " " << name_of(tensor) << " " << at << ": "
                              << r[tensor].value[at] << " and " << derivative;
    }
  }
}

TEST(Gradients, AreDerivatives) {
  double worst = 0;
  int64_t unequal = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Small s(ATTN_F32, seed);
    ASSERT_NO_FATAL_FAILURE(expect_derivatives(s, seed, &unequal, &worst));
  }
  EXPECT_GT(unequal, 1000);
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal),
              worst);
}

TEST(Gradients, AreDerivativesWithSinksDlseAndDbias) {
  double worst = 0;
  int64_t unequal = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Small s(ATTN_F32, seed);
    s.add_more(seed);
    ASSERT_NO_FATAL_FAILURE(expect_derivatives(s, seed, &unequal, &worst));
  }
  EXPECT_GT(unequal, 2000);
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal),
              worst);
}

TEST(Gradients, AreDerivativesOverListedBlocks) {
  double worst = 0;
  int64_t unequal = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Small s(ATTN_F32, seed + 300);
    s.take_lists(seed);
    ASSERT_NO_FATAL_FAILURE(expect_derivatives(s, seed, &unequal, &worst));
  }
  EXPECT_GT(unequal, 1000);
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal),
              worst);
}

TEST(Gradients, AreDerivativesWithKeysOfBlocks) {
  double worst = 0;
  int64_t unequal = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Small s(ATTN_F32, seed + 600);
    if (seed % 2 == 0) s.add_more(seed);
    s.take_key_blocks(seed);
    ASSERT_NO_FATAL_FAILURE(expect_derivatives(s, seed, &unequal, &worst));
  }
  EXPECT_GT(unequal, 1000);
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal),
              worst);
}

}  // namespace
}  // namespace attnfuzz
