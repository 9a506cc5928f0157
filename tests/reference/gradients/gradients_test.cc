// Tests the oracle of gradients: compares it with complex-step derivatives of the forward pass, checks that
// emulated kernels are within its bounds, and tests rows and keys without any pair.
#include "reference/gradients/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <vector>

#include "reference/call/row_space.h"
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
        if (s.has(ATTN_FEATURE_DLSE) && of_lse != 0.0) all += double{s.dlse[s.q_at(b, h, i)]} * std::log(of_lse);
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

bool gives(const Reference& r, TensorId tensor) {
  return std::ranges::any_of(r.outputs, [&](const Expected& due) { return due.tensor == tensor && !due.value.empty(); });
}

// Compares some elements of each gradient with complex-step derivatives.
void expect_derivatives(Small& s, uint64_t seed, int64_t* unequal, double* worst) {
  constexpr double kStep = 1e-40;
  const auto [o, lse] = s.save();
  const ExactRows exact = {o.data(), lse.data()};
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
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal), worst);
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
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal), worst);
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
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal), worst);
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
  std::printf("%ld derivatives differ, by %.3g of the sum of moduli at most\n", static_cast<long>(unequal), worst);
}

float rounded(int32_t dtype, float x) {
  if (dtype == ATTN_F32) return x;
  const uint16_t bits = encode16(dtype, x);
  return static_cast<float>(decode(dtype, &bits, 0));
}

enum class Mistake {
  kNone,
  kNoDelta,
  kDeltaIn16,
  kNoSlope,
  kLastHead,
  kHalfScale,
  kOneKeyMore,
  kSinkSign,   // dsink has the other sign
  kNoDlse,     // dLSE is not read
  kDlseTwice,  // D has dLSE twice
  kBiasOfOne   // dbias has only the last of the terms that it should sum
};

// The source of a kernel's O and LSE: the tensors; its own forward pass; or, instead of the LSE, the maximum
// and the sum of a row's weights, as in the derivative of a softmax.
enum class Saved { kGiven, kOwn, kSoftmax };

// A kernel in fp32. It adds in random order, and rounds P and dA to the input's format if they are factors.
struct Kernel {
  std::vector<float> dq, dk, dv, dbias, dsink;

  Kernel(Small& s, uint64_t seed, Mistake mistake, Saved saved = Saved::kGiven) : saved_(saved) {
    const attn_problem& p = s.p;
    dq.assign(s.rows() * p.dim_qk, 0), dk.assign(s.keys() * p.dim_qk, 0), dv.assign(s.keys() * p.dim_v, 0);
    dbias.assign(s.has(ATTN_FEATURE_DBIAS) ? s.bias.size() : 0, 0);
    dsink.assign(s.has(ATTN_FEATURE_DSINK) ? s.sinks.size() : 0, 0);
    std::vector<size_t> order(s.rows());
    std::iota(order.begin(), order.end(), size_t{0});
    Random random(seed);
    shuffle(&random, &order);
    for (const size_t row : order) query(s, static_cast<int64_t>(row), &random, mistake);
    for (float& x : dq) x = rounded(p.dtype, x * p.scale);
    for (float& x : dk) x = rounded(p.dtype, x * (mistake == Mistake::kHalfScale ? 1.0f : p.scale));
    for (float& x : dv) x = rounded(p.dtype, x);
    if (s.has(ATTN_FEATURE_DBIAS)) spread_bias(s);
  }

 private:
  template <class T>
  static void shuffle(Random* random, std::vector<T>* all) {
    for (size_t n = all->size(); n > 1; --n) std::swap((*all)[n - 1], (*all)[random->below(n)]);
  }
  void query(Small& s, int64_t row, Random* random, Mistake mistake) {
    const attn_problem& p = s.p;
    const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    if (mistake == Mistake::kLastHead && (h + 1) % (p.heads_q / p.heads_kv) != 0) return;
    std::vector<int64_t> keys;
    row_keys(p, s.tensors(), b, h, i, 0, p.seq_k, &keys);
    if (mistake == Mistake::kOneKeyMore && !keys.empty() && keys.back() + 1 < p.seq_k)
      keys.push_back(keys.back() + 1);
    shuffle(random, &keys);
    const size_t at = static_cast<size_t>(row);
    std::vector<Score> scores;
    for (const int64_t j : keys) scores.push_back(score(s, at, s.k_at(b, h, j), s.pair_at(b, h, i, j), mistake));
    auto [delta, weights, lam, apart, sink_weight] = weigh(s, at, scores, static_cast<float>(s.sink(h)));
    const float dlse = s.has(ATTN_FEATURE_DLSE) && mistake != Mistake::kNoDlse ? s.dlse[at] : 0;
    if (s.plan.lse_sink == 0) delta -= mistake == Mistake::kDlseTwice ? 2 * dlse : dlse;
    if (s.has(ATTN_FEATURE_DSINK))
      dsink[static_cast<size_t>(h)] += (mistake == Mistake::kSinkSign ? 1.0f : -1.0f) * sink_weight * delta;
    if (mistake == Mistake::kNoDelta) delta = 0;
    if (mistake == Mistake::kDeltaIn16) delta = rounded(ATTN_BF16, delta);
    for (size_t n = 0; n < scores.size(); ++n) {
      const auto& [key, x, grad, slope] = scores[n];
      float of_pair = weights[n] * (grad - delta);
      if (s.plan.lse_sink != 0) of_pair += dlse * std::exp2((x - apart) * 1.44269504f);
      if (s.has(ATTN_FEATURE_DBIAS)) {
        float& to = dbias[one_of(s, at) * static_cast<size_t>(p.seq_k) + static_cast<size_t>(keys[n])];
        to = mistake == Mistake::kBiasOfOne ? of_pair : to + of_pair;
      }
      const float a = rounded(p.dtype, of_pair * slope), w = rounded(p.dtype, weights[n]);
      for (int64_t d = 0; d < p.dim_qk; ++d) {
        float &to_q = dq[at * p.dim_qk + d], &to_k = dk[key * p.dim_qk + d];
        to_q = std::fma(a, s.k.number[key * p.dim_qk + d], to_q);
        to_k = std::fma(a, s.q.number[at * p.dim_qk + d], to_k);
      }
      for (int64_t c = 0; c < p.dim_v; ++c) {
        float& to = dv[key * p.dim_v + c];
        to = std::fma(w, s.dout.number[at * p.dim_v + c], to);
      }
    }
  }

  // A visible key with its score, dO.V, and the derivative of the softcap.
  struct Score {
    size_t key;
    float x = 0, grad = 0, slope = 1;
  };

  static Score score(const Small& s, size_t at, size_t key, size_t pair, Mistake mistake) {
    const attn_problem& p = s.p;
    Score of = {.key = key};
    for (int64_t d = 0; d < p.dim_qk; ++d)
      of.x = std::fma(s.q.number[at * p.dim_qk + d], s.k.number[key * p.dim_qk + d], of.x);
    for (int64_t c = 0; c < p.dim_v; ++c)
      of.grad = std::fma(s.dout.number[at * p.dim_v + c], s.v.number[key * p.dim_v + c], of.grad);
    of.x *= p.scale;
    if (p.softcap > 0) {
      const float t = std::tanh(of.x / p.softcap);
      of.x = p.softcap * t;
      of.slope = mistake == Mistake::kNoSlope ? 1 : 1 - t * t;
    }
    if (p.bias_dtype != ATTN_NONE) of.x += s.bias[pair];
    return of;
  }

  // The row whose dbias element a row shares.
  static size_t one_of(const Small& s, size_t row) {
    const auto [b, h, i] = RowSpace(s.p).at(static_cast<int64_t>(row));
    return s.q_at(s.summed[0] ? 0 : b, s.summed[1] ? 0 : h, s.summed[2] ? 0 : i);
  }
  void spread_bias(const Small& s) {
    const auto keys = static_cast<size_t>(s.p.seq_k);
    for (size_t n = 0; n < dbias.size(); ++n) dbias[n] = dbias[one_of(s, n / keys) * keys + n % keys];
  }

  struct Weights {
    float delta = 0;
    std::vector<float> of_keys;
    float lam, apart, of_sink = 0;  // the LSE with the sink and without it
  };

  // D and the probabilities of a row.
  Weights weigh(const Small& s, size_t at, const std::vector<Score>& scores, float sink) const {
    const int64_t columns = s.p.dim_v;
    const bool sinks = s.has(ATTN_FEATURE_DSINK);
    float most = sinks ? sink : -std::numeric_limits<float>::infinity(), sum = 0, delta = 0, lse = s.lse[at];
    std::vector<float> weights;
    for (const Score& of : scores) most = std::max(most, of.x);
    for (const Score& of : scores) sum += std::exp2((of.x - most) * 1.44269504f);
    float apart = saved_ == Saved::kGiven ? lse : most + std::log(sum);
    if (sinks) sum += std::exp2((sink - most) * 1.44269504f);
    if (saved_ == Saved::kGiven && s.plan.lse_sink != 0)
      lse = std::max(lse, sink) + std::log1p(std::exp(-std::abs(lse - sink)));
    if (saved_ != Saved::kGiven) lse = most + std::log(sum);
    for (const Score& of : scores)
      weights.push_back(saved_ == Saved::kSoftmax ? std::exp2((of.x - most) * 1.44269504f) / sum
                                                  : std::exp2((of.x - lse) * 1.44269504f));
    for (size_t n = 0; saved_ == Saved::kSoftmax && n < scores.size(); ++n) delta += weights[n] * scores[n].grad;
    for (int64_t c = 0; saved_ != Saved::kSoftmax && c < columns; ++c) {
      float o = s.o.number[at * columns + c];
      if (saved_ == Saved::kOwn) {
        o = 0;
        for (const Score& of : scores)
          o = std::fma(rounded(s.p.dtype, std::exp2((of.x - most) * 1.44269504f)), s.v.number[of.key * columns + c], o);
        o = rounded(s.p.dtype, o / sum);
      }
      delta = std::fma(s.dout.number[at * columns + c], o, delta);
    }
    const float of_sink = saved_ == Saved::kSoftmax ? std::exp2((sink - most) * 1.44269504f) / sum
                                                    : std::exp2((sink - lse) * 1.44269504f);
    return {delta, weights, lse, apart, of_sink};
  }

  Saved saved_;
};

// The largest error/bound of the three outputs.
double worst_of(const Reference& r, const Kernel& kernel, std::vector<double>* all) {
  double worst = 0;
  for (const auto& [tensor, got] :
       {std::pair{TensorId::kDq, &kernel.dq}, {TensorId::kDk, &kernel.dk}, {TensorId::kDv, &kernel.dv},
        {TensorId::kDbias, &kernel.dbias}, {TensorId::kDsink, &kernel.dsink}}) {
    if (!gives(r, tensor)) continue;
    const Expected& due = r[tensor];
    for (size_t n = 0; n < got->size(); ++n) {
      const auto at = static_cast<int64_t>(n);
      const double ratio = due.ratio(at / due.columns, at % due.columns, (*got)[n]);
      worst = std::max(worst, ratio);
      if (all && due.bound[n] > 0) all->push_back(ratio);
    }
  }
  return worst;
}

TEST(Gradients, BoundRightKernels) {
  std::vector<double> ratios;
  for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
    for (uint64_t seed = 1; seed <= 400; ++seed) {
      Small s(dtype, seed + 1000);
      s.save();
      ASSERT_LE(worst_of(s.due(), Kernel(s, seed, Mistake::kNone), &ratios), 1)
          << "dtype " << dtype << " seed " << seed;
    }
  }
  std::ranges::sort(ratios);
  std::printf("%zu elements, error/bound %.3f at most, median %.3f\n", ratios.size(), ratios.back(),
              ratios[ratios.size() / 2]);
  EXPECT_GT(ratios.back(), 0.2) << "the bound is far too wide";
}

TEST(Gradients, BoundKernelsOverListedBlocks) {
  for (const Saved saved : {Saved::kGiven, Saved::kOwn, Saved::kSoftmax}) {
    std::vector<double> ratios;
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      for (uint64_t seed = 1; seed <= 300; ++seed) {
        Small s(dtype, seed + 40000);
        s.take_lists(seed);
        s.save();
        s.plan.saved = saved == Saved::kGiven ? ATTN_SAVED_GIVEN : ATTN_SAVED_RECOMPUTED;
        ASSERT_LE(worst_of(s.due(), Kernel(s, seed, Mistake::kNone, saved), &ratios), 1)
            << "dtype " << dtype << " seed " << seed << " saved " << static_cast<int>(saved);
      }
    }
    std::ranges::sort(ratios);
    std::printf("%zu elements, error/bound %.3f at most, median %.3f\n", ratios.size(), ratios.back(),
                ratios[ratios.size() / 2]);
    EXPECT_GT(ratios.back(), 0.1) << "the bound is far too wide";
  }
}

// Expects that gradients over listed blocks, or over keys of blocks, equal those of a dense backward pass.
void expect_dense(Small& blocks, Small& dense, uint64_t seed) {
  blocks.save();
  dense.o = blocks.o, dense.lse = blocks.lse, dense.dlse = blocks.dlse;
  const Reference a = blocks.due(), b = dense.due();
  ASSERT_EQ(a.outputs.size(), blocks.has(ATTN_FEATURE_SELECTED_BACKWARD) ? 3u : 5u);
  EXPECT_EQ(a.state, b.state);
  for (const Expected& due : a.outputs) {
    EXPECT_EQ(due.value, b[due.tensor].value) << "seed " << seed << " " << name_of(due.tensor);
    EXPECT_EQ(due.bound, b[due.tensor].bound) << "seed " << seed << " " << name_of(due.tensor);
    EXPECT_EQ(due.rule, b[due.tensor].rule) << "seed " << seed << " " << name_of(due.tensor);
  }
}

// The problem without its lists.
Small without_lists(const Small& s) {
  Small dense = s;
  dense.p.features = (dense.p.features & ~ATTN_FEATURE_SELECTED_BACKWARD) | ATTN_FEATURE_BACKWARD;
  dense.p.block = dense.p.select = 0;
  return dense;
}

TEST(Gradients, OverListedBlocksAreThoseOfAMask) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Small s(seed % 2 == 0 ? ATTN_BF16 : ATTN_F32, seed + 700);
    s.take_lists(seed);
    Small dense = without_lists(s);
    dense.p.has_mask = 1;
    dense.mask = s.mask_of_lists();
    expect_dense(s, dense, seed);
  }
}

TEST(Gradients, WithKeysOfBlocksAreThoseOfAMask) {
  int64_t some = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Small s(seed % 2 == 0 ? ATTN_BF16 : ATTN_F32, seed + 900, seed % 8 == 0);
    s.take_key_blocks(seed);
    Small dense = s;
    dense.p.features &= ~ATTN_FEATURE_KEY_STEP;
    dense.p.key_step = dense.p.key_offset = 0;
    dense.p.causal = dense.p.has_key_lengths = 0, dense.p.window_left = dense.p.window_right = -1;
    dense.p.has_mask = 1, dense.mask = s.mask_of_blocks();
    some += std::ranges::count(dense.mask, 1);
    expect_dense(s, dense, seed);
  }
  EXPECT_GT(some, 2000);
}

TEST(Gradients, OverAllBlocksAreDense) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Small s(ATTN_F16, seed + 800);
    s.take_lists(seed);
    s.p.select = (s.p.seq_k + s.p.block - 1) / s.p.block;
    s.lists.resize(static_cast<size_t>(s.p.batch * s.p.heads_kv * s.p.seq_q * s.p.select));
    for (size_t n = 0; n < s.lists.size(); ++n) s.lists[n] = static_cast<int64_t>(n) % s.p.select;
    Small dense = without_lists(s);
    expect_dense(s, dense, seed);
  }
}

// A kernel may gather keys and queries in any order, so the plan's tiles do not determine the blocks of an mma.
TEST(Gradients, OverListedBlocksAnyPairMayBeAloneInItsBlock) {
  Small s(ATTN_F16, 811);
  s.take_lists(1);
  s.plan.accumulator = ATTN_ACC_TENSOR;
  s.save();
  const Reference wide = s.due();
  s.plan.tile_q = s.plan.tile_k = 1;
  const Reference narrow = s.due();
  for (const Expected& due : wide.outputs) EXPECT_EQ(due.bound, narrow[due.tensor].bound);
}

TEST(Gradients, OverListedBlocksRefuseUnknownFeatures) {
  for (const uint64_t other : {ATTN_FEATURE_BACKWARD, ATTN_FEATURE_SELECTED, ATTN_FEATURE_DBIAS, ATTN_FEATURE_PAGED,
                               ATTN_FEATURE_KEY_STEP}) {
    Small s(ATTN_F16, 1);
    s.take_lists(1);
    s.p.features |= other;
    EXPECT_THROW(s.due(), UnknownFeatures) << other;
  }
}

TEST(Gradients, BoundKernelsWithSinksDlseAndDbias) {
  for (const Saved saved : {Saved::kGiven, Saved::kOwn, Saved::kSoftmax}) {
    std::vector<double> ratios;
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      for (uint64_t seed = 1; seed <= 400; ++seed) {
        Small s(dtype, seed + 20000);
        s.add_more(seed);
        s.save();
        s.plan.saved = saved == Saved::kGiven ? ATTN_SAVED_GIVEN : ATTN_SAVED_RECOMPUTED;
        ASSERT_LE(worst_of(s.due(), Kernel(s, seed, Mistake::kNone, saved), &ratios), 1)
            << "dtype " << dtype << " seed " << seed << " saved " << static_cast<int>(saved);
      }
    }
    std::ranges::sort(ratios);
    std::printf("%zu elements, error/bound %.3f at most, median %.3f\n", ratios.size(), ratios.back(),
                ratios[ratios.size() / 2]);
    EXPECT_GT(ratios.back(), 0.1) << "the bound is far too wide";
  }
}

TEST(Gradients, FindMistakesWithSinksDlseAndDbias) {
  const std::pair<Mistake, int> least[] = {
      {Mistake::kSinkSign, 40}, {Mistake::kNoDlse, 50}, {Mistake::kDlseTwice, 25}, {Mistake::kBiasOfOne, 10}};
  for (const auto& [mistake, most] : least) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      Small s(ATTN_BF16, seed + 5000);
      s.add_more(seed);
      s.save();
      found += worst_of(s.due(), Kernel(s, seed, mistake), nullptr) > 1;
    }
    std::printf("mistake %d: found in %d of 100\n", static_cast<int>(mistake), found);
    EXPECT_GE(found, most) << "mistake " << static_cast<int>(mistake);
  }
}

// If a plan declares that O and the LSE are recomputed, its bound holds for a kernel with its own forward pass.
// The bound of a plan that reads them does not.
TEST(Gradients, BoundKernelsThatRecompute) {
  for (const Saved saved : {Saved::kOwn, Saved::kSoftmax}) {
    std::vector<double> ratios;
    int beyond_given = 0;
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      for (uint64_t seed = 1; seed <= 400; ++seed) {
        Small s(dtype, seed + 1000);
        s.save();
        const Kernel kernel(s, seed, Mistake::kNone, saved);
        beyond_given += worst_of(s.due(), kernel, nullptr) > 1;
        s.plan.saved = 1;
        std::ranges::fill(s.o.half, uint16_t{0x7fff});  // NaN: nothing reads it
        std::ranges::fill(s.o.number, std::numeric_limits<float>::quiet_NaN());
        ASSERT_LE(worst_of(s.due(), kernel, &ratios), 1) << "dtype " << dtype << " seed " << seed;
      }
    }
    std::ranges::sort(ratios);
    std::printf("%zu elements, error/bound %.3f at most, median %.3f; %d kernels beyond the bound of a given O\n",
                ratios.size(), ratios.back(), ratios[ratios.size() / 2], beyond_given);
    EXPECT_GT(ratios.back(), 0.1) << "the bound is far too wide";
    EXPECT_GT(beyond_given, 100);
  }
}

TEST(Gradients, FindMistakesOfKernelsThatRecompute) {
  const std::pair<Mistake, int> least[] = {{Mistake::kNoDelta, 55},
                                           {Mistake::kNoSlope, 12},
                                           {Mistake::kLastHead, 20},
                                           {Mistake::kHalfScale, 40},
                                           {Mistake::kOneKeyMore, 15}};
  for (const auto& [mistake, most] : least) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      Small s(ATTN_BF16, seed + 5000);
      s.save();
      s.plan.saved = 1;
      found += worst_of(s.due(), Kernel(s, seed, mistake, Saved::kOwn), nullptr) > 1;
    }
    EXPECT_GE(found, most) << "mistake " << static_cast<int>(mistake);
  }
}

TEST(Gradients, ACallerAllowsRecomputing) {
  Small s(ATTN_F16, 31);
  s.save();
  const Reference given = s.due();
  s.plan.saved = 1;
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  EXPECT_EQ(evaluate_gradients(s.p, s.tensors(), s.plan, capped)[TensorId::kDq].value, given[TensorId::kDq].value);
  capped.error_cap->saved = 1;
  EXPECT_NE(evaluate_gradients(s.p, s.tensors(), s.plan, capped)[TensorId::kDq].value, given[TensorId::kDq].value);
}

TEST(Gradients, ASampleOfRecomputedGradientsJudgesTheSame) {
  Small s(ATTN_BF16, 17);
  s.save();
  s.plan.saved = 1;
  const Reference all = s.due(), some = s.due({.limit = 3, .seed = 1});
  for (const Expected& due : some.outputs) {
    for (size_t n = 0; n < due.value.size(); ++n) {
      if (due.rule[n] != 0) continue;
      EXPECT_NEAR(due.value[n], all[due.tensor].value[n], 1e-12);
      EXPECT_NEAR(due.bound[n], all[due.tensor].bound[n], 1e-6 * all[due.tensor].bound[n] + 1e-15);
    }
  }
}

TEST(Gradients, FindMistakes) {
  const std::pair<Mistake, int> least[] = {{Mistake::kNoDelta, 55},   {Mistake::kDeltaIn16, 30},
                                           {Mistake::kNoSlope, 15},   {Mistake::kLastHead, 20},
                                           {Mistake::kHalfScale, 45}, {Mistake::kOneKeyMore, 15}};
  for (const auto& [mistake, most] : least) {
    int found = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      Small s(ATTN_BF16, seed + 5000);
      s.save();
      found += worst_of(s.due(), Kernel(s, seed, mistake), nullptr) > 1;
    }
    EXPECT_GE(found, most) << "mistake " << static_cast<int>(mistake);
  }
}

TEST(Gradients, AreZeroWithoutAPair) {
  int64_t dead = 0, unseen = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Small s(ATTN_F16, seed + 9000);
    s.save();
    const Reference r = s.due();
    const attn_tensors t = s.tensors();
    std::vector<int64_t> keys;
    std::vector<bool> seen(s.keys());
    for (size_t row = 0; row < s.rows(); ++row) {
      const Row at = RowSpace(s.p).at(static_cast<int64_t>(row));
      row_keys(s.p, t, at.b, at.h, at.i, 0, s.p.seq_k, &keys);
      for (const int64_t j : keys) seen[s.k_at(at.b, at.h, j)] = true;
      EXPECT_EQ(r.state[row] == RowState::kDead, keys.empty());
      if (!keys.empty()) continue;
      ++dead;
      EXPECT_EQ(r[TensorId::kDq].bound[row * s.p.dim_qk], 0);
      EXPECT_EQ(r[TensorId::kDq].value[row * s.p.dim_qk], 0);
    }
    for (size_t key = 0; key < seen.size(); ++key) {
      if (seen[key]) continue;
      ++unseen;
      EXPECT_EQ(r[TensorId::kDv].bound[key * s.p.dim_v], 0);
      EXPECT_EQ(r[TensorId::kDk].rule[key * s.p.dim_qk], 0);
    }
  }
  EXPECT_GT(dead, 20);
  EXPECT_GT(unseen, 20);
}

TEST(Gradients, ASampleJudgesTheSame) {
  Small s(ATTN_BF16, 17);
  s.save();
  const Reference all = s.due(), some = s.due({.limit = 3, .seed = 1});
  EXPECT_LE(some.sampled, 3);
  int64_t judged = 0;
  for (const Expected& due : some.outputs) {
    for (size_t n = 0; n < due.value.size(); ++n) {
      if (due.rule[n] != 0) continue;
      ++judged;
      EXPECT_NEAR(due.value[n], all[due.tensor].value[n], 1e-12);
      EXPECT_NEAR(due.bound[n], all[due.tensor].bound[n], 1e-6 * all[due.tensor].bound[n] + 1e-15);
    }
  }
  EXPECT_GT(judged, 0);
}

// A kernel that does not isolate a masked NaN also multiplies a query's NaN by 0 for hidden keys, even if that query
// sees no judged key.
TEST(Gradients, ASampleKnowsTheNaNOfAQueryWithoutAJudgedKey) {
  int64_t judged = 0, free = 0;
  for (uint64_t seed = 1; seed <= 5000; ++seed) {
    Small s(ATTN_F16, seed);
    // At least 64 keys are judged, and here each query sees two at most.
    if (s.keys() < 72 || s.p.window_left < 0 || s.p.window_left + s.p.window_right > 1) continue;
    s.plan.isolates_masked_nan = 0;
    s.save();
    s.lse[seed % s.lse.size()] = std::nanf("");
    const Reference all = s.due(), some = s.due({.limit = 1, .seed = seed});
    for (const Expected& due : some.outputs) {
      for (size_t n = 0; n < due.value.size(); ++n) {
        const uint8_t rule = all[due.tensor].rule[n];
        free += rule != 0;
        if (due.rule[n] != 0) continue;
        ++judged;
        ASSERT_EQ(rule, 0) << "seed " << seed << " " << name_of(due.tensor) << " " << n;
      }
    }
  }
  EXPECT_GT(judged, 100);
  EXPECT_GT(free, 100);
}

// Two queries: the first sees one key, the second both.
Small two_by_two(int32_t dtype = ATTN_F16) {
  Small s(dtype, 1);
  s.p.batch = s.p.heads_q = s.p.heads_kv = 1;
  s.p.seq_q = s.p.seq_k = s.p.dim_qk = s.p.dim_v = 2;
  s.p.scale = 1, s.p.softcap = 0, s.p.causal = 1, s.p.align = ATTN_TOP_LEFT;
  s.p.window_left = s.p.window_right = -1;
  s.p.has_mask = s.p.has_key_lengths = 0;
  s.p.bias_dtype = ATTN_NONE;
  for (Array* array : {&s.q, &s.k, &s.v, &s.dout, &s.o}) {
    array->resize(4);
    for (size_t n = 0; n < 4; ++n) array->set(dtype, n, 0.5 + 0.25 * static_cast<double>(n));
  }
  s.lse.assign(2, 0);
  s.save();
  return s;
}

// A kernel multiplies the sum by the scale, and infinity times 0 is NaN.
TEST(Gradients, ASumThatMayOverflowIsAnythingWithAScaleOfZero) {
  Small s = two_by_two(ATTN_BF16);
  s.p.scale = 0;
  for (size_t n = 0; n < 4; ++n) {
    s.q.set(ATTN_BF16, n, 0);
    s.k.set(ATTN_BF16, n, 3e38);
    s.v.set(ATTN_BF16, n, n < 2 ? 0 : 1);
    s.dout.set(ATTN_BF16, n, 100);
  }
  s.save();
  const Reference r = s.due();
  EXPECT_EQ(static_cast<Due>(r[TensorId::kDq].rule[2]), Due::kAnything);
  EXPECT_EQ(static_cast<Due>(r[TensorId::kDq].rule[0]), Due::kNumber) << "dS of query 0 is 0";
  EXPECT_EQ(r[TensorId::kDq].bound[0], 0);
  EXPECT_EQ(static_cast<Due>(r[TensorId::kDk].rule[0]), Due::kNumber) << "queries are 0";
  EXPECT_EQ(r[TensorId::kDk].bound[0], 0);
}

TEST(Gradients, ANaNReachesTheElementsThatDependOnIt) {
  constexpr auto kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto rule = [](const Reference& r, TensorId t, size_t at) { return static_cast<Due>(r[t].rule[at]); };
  Small s = two_by_two();
  s.q.set(ATTN_F16, 3, kNaN);  // of query 1, column 1
  Reference r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kMustBeNaN);
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kNumber);
  EXPECT_EQ(rule(r, TensorId::kDk, 0), Due::kMustBeNaN) << "query 1 sees key 0";
  EXPECT_EQ(rule(r, TensorId::kDv, 3), Due::kMustBeNaN);

  s = two_by_two();
  s.k.set(ATTN_F16, 3, kNaN);  // of key 1, which query 0 does not see
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kNumber);
  EXPECT_EQ(rule(r, TensorId::kDq, 1), Due::kAnything) << "0 times NaN";
  EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kMustBeNaN);
  s.plan.isolates_masked_nan = 1;
  EXPECT_EQ(rule(s.due(), TensorId::kDq, 1), Due::kNumber);

  s = two_by_two();
  s.dout.set(ATTN_F16, 3, kNaN);  // of query 1, column 1
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDv, 0), Due::kNumber) << "P does not depend on dO";
  EXPECT_EQ(rule(r, TensorId::kDv, 1), Due::kMustBeNaN);
  EXPECT_EQ(rule(r, TensorId::kDk, 2), Due::kMustBeNaN);

  // dS of a hidden pair is 0 * (dP - D): NaN if dO of the query or V of the key is, unless the kernel isolates it.
  s = two_by_two();
  s.dout.set(ATTN_F16, 0, kNaN);  // of query 0, which does not see key 1
  for (const int isolates : {0, 1}) {
    s.plan.isolates_masked_nan = isolates;
    r = s.due();
    EXPECT_EQ(rule(r, TensorId::kDk, 2), isolates ? Due::kNumber : Due::kAnything);
    EXPECT_EQ(rule(r, TensorId::kDk, 0), Due::kMustBeNaN);
    EXPECT_EQ(rule(r, TensorId::kDv, 3), Due::kNumber) << "P of a hidden pair is 0, and dO is a number there";
    EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kNumber) << "query 1 has no part in it";
  }
  s = two_by_two();
  s.v.set(ATTN_F16, 2, kNaN);  // of key 1
  for (const int isolates : {0, 1}) {
    s.plan.isolates_masked_nan = isolates;
    r = s.due();
    EXPECT_EQ(rule(r, TensorId::kDq, 0), isolates ? Due::kNumber : Due::kAnything);
    EXPECT_EQ(rule(r, TensorId::kDk, 0), Due::kNumber);
    EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kMustBeNaN) << "query 1 sees key 1";
  }

  // A NaN in K or V reaches the LSE and O of a kernel that computes both, and all of its gradients.
  s = two_by_two();
  s.plan.saved = 1;
  s.k.set(ATTN_F16, 3, kNaN);  // of key 1, which query 0 does not see
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDv, 0), Due::kMustBeNaN) << "P of query 1 and key 0";
  EXPECT_EQ(rule(r, TensorId::kDk, 2), Due::kMustBeNaN);
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kNumber);

  s = two_by_two();
  s.o.set(ATTN_F16, 0, std::numeric_limits<float>::infinity());
  r = s.due();
  EXPECT_EQ(rule(r, TensorId::kDq, 0), Due::kAnything);
  EXPECT_EQ(rule(r, TensorId::kDq, 2), Due::kNumber);
  EXPECT_EQ(r.unconstrained, 1);
}

// An untrusted plan must not widen the bound beyond what the caller allows.
TEST(Gradients, APlanCannotLoosenTheBound) {
  Small s(ATTN_F16, 23);
  s.save();
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  const auto widest = [&](const attn_plan& plan) {
    const Reference r = evaluate_gradients(s.p, s.tensors(), plan, capped);
    double sum = 0;
    for (const Expected& due : r.outputs) {
      for (size_t n = 0; n < due.bound.size(); ++n) sum += due.rule[n] == 0 ? due.bound[n] : 0;
    }
    return sum;
  };
  attn_plan honest = s.plan, unknown = s.plan;
  unknown.ds_format = unknown.head_format = ATTN_FORMAT_UNKNOWN;
  unknown.dq_adds = unknown.dkv_adds = 0;
  attn_plan loose = s.plan;
  loose.ds_format = ATTN_FORMAT_E5M2;
  loose.head_format = ATTN_FORMAT_OF_INPUT;
  loose.dq_adds = loose.dkv_adds = int64_t{1} << 30;
  EXPECT_GT(widest(honest), 0);
  EXPECT_GE(widest(unknown), widest(honest));
  EXPECT_LE(widest(loose), widest(unknown));
  EXPECT_GT(
      [&] {
        const Reference r = evaluate_gradients(s.p, s.tensors(), loose, documented());
        double sum = 0;
        for (const Expected& due : r.outputs)
          for (size_t n = 0; n < due.bound.size(); ++n) sum += due.rule[n] == 0 ? due.bound[n] : 0;
        return sum;
      }(),
      2 * widest(unknown))
      << "a trusted plan may say so";
}

// If the plan has base 2, the LSE is stored in base 2; a cap does not change its base.
TEST(Gradients, TheLseIsReadInThePlansBase) {
  Small s(ATTN_BF16, 29);
  s.save();
  const Reference natural = s.due();
  s.plan.lse_base = 2;
  for (float& x : s.lse) x = static_cast<float>(x / std::log(2.0));
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  const Reference r = evaluate_gradients(s.p, s.tensors(), s.plan, capped);
  for (const Expected& due : r.outputs) {
    for (size_t n = 0; n < due.value.size(); ++n)
      EXPECT_NEAR(due.value[n], natural[due.tensor].value[n], natural[due.tensor].bound[n]);
  }
}

// A call with two packed entries and arbitrary O and LSE.
Small packed_storage(uint64_t seed) {
  Small s(ATTN_F16, seed);
  s.p.batch = 1, s.p.heads_kv = 1, s.p.heads_q = 2, s.p.seq_q = 12, s.p.seq_k = 14;
  s.p.dim_qk = s.p.dim_v = 3;
  s.p.has_mask = s.p.has_key_lengths = 0, s.p.bias_dtype = ATTN_NONE, s.p.scale = 0.5f, s.p.softcap = 0;
  s.p.has_sink = 1, s.p.sink_dtype = ATTN_F32;
  s.p.features = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SINK | ATTN_FEATURE_DSINK | ATTN_FEATURE_DLSE;
  Random random(seed);
  for (Array* array : {&s.q, &s.k, &s.v, &s.dout, &s.o}) {
    array->resize(2 * 14 * 3);
    for (size_t n = 0; n < array->number.size(); ++n) array->set(ATTN_F16, n, random.gaussian());
  }
  s.lse.assign(2 * 12, 0), s.dlse.assign(2 * 12, 0), s.sinks = {0.5f, -1.0f};
  for (size_t n = 0; n < s.lse.size(); ++n)
    s.lse[n] = 3 + static_cast<float>(random.gaussian()), s.dlse[n] = static_cast<float>(random.gaussian());
  return s;
}

TEST(Gradients, OfPackedEntriesAreThoseOfEachAlone) {
  const int32_t cu_q[] = {0, 5, 12}, cu_k[] = {0, 9, 13};  // one slack key
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Small s = packed_storage(seed);
    const attn_tensors all = s.tensors();
    attn_tensors t = all;
    t.cu_q = cu_q, t.cu_k = cu_k;
    attn_problem p = s.p;
    p.batch = 2, p.seq_q = 8, p.seq_k = 10, p.ragged = 3, p.total_q = 12, p.total_k = 14;
    p.index_dtype = ATTN_INDEX_32;
    p.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
    const Reference packed = evaluate_gradients(p, t, s.plan, documented());
    double sinks = 0;
    for (int64_t b = 0; b < 2; ++b) {
      attn_problem one = s.p;
      one.seq_q = cu_q[b + 1] - cu_q[b], one.seq_k = cu_k[b + 1] - cu_k[b];
      attn_tensors alone = all;
      for (attn_tensor attn_tensors::* q : {&attn_tensors::q, &attn_tensors::o, &attn_tensors::dout})
        (alone.*q).data = static_cast<uint16_t*>((all.*q).data) + cu_q[b] * (all.*q).stride[2];
      for (attn_tensor attn_tensors::* q : {&attn_tensors::lse, &attn_tensors::dlse})
        (alone.*q).data = static_cast<float*>((all.*q).data) + cu_q[b];
      for (attn_tensor attn_tensors::* k : {&attn_tensors::k, &attn_tensors::v})
        (alone.*k).data = static_cast<uint16_t*>((all.*k).data) + cu_k[b] * (all.*k).stride[2];
      const Reference due = evaluate_gradients(one, alone, s.plan, documented());
      for (const TensorId id : {TensorId::kDq, TensorId::kDk, TensorId::kDv}) {
        const bool query = id == TensorId::kDq;
        const int64_t heads = query ? 2 : 1, longest = query ? 8 : 10, rows = query ? one.seq_q : one.seq_k;
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t n = 0; n < longest * 3; ++n) {
            const auto x = static_cast<size_t>((b * heads + h) * longest * 3 + n);
            if (n >= rows * 3) {
              EXPECT_EQ(packed[id].rule[x], static_cast<uint8_t>(Due::kAnything)) << "there is no such row";
              continue;
            }
            const auto y = static_cast<size_t>(h * rows * 3 + n);
            ASSERT_EQ(packed[id].value[x], due[id].value[y]) << name_of(id) << " " << b << " " << h << " " << n;
            ASSERT_EQ(packed[id].bound[x], due[id].bound[y]) << name_of(id) << " " << b << " " << h << " " << n;
          }
        }
      }
      sinks += due[TensorId::kDsink].value[1];
    }
    EXPECT_NEAR(packed[TensorId::kDsink].value[1], sinks, 1e-12);
    EXPECT_EQ(packed.state[5], RowState::kAbsent);
  }
}

TEST(Gradients, RefuseSlopesByName) {
  Small s(ATTN_F16, 3);
  s.p.features |= ATTN_FEATURE_ALIBI;
  EXPECT_THROW(s.due(), UnknownFeatures);
}

}  // namespace
}  // namespace attnfuzz
