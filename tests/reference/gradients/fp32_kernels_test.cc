// Tests the bound of gradients with kernels in fp32: right ones are within it, and mistakes are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
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
    for (const int64_t j : keys)
      scores.push_back(score(s, at, s.k_at(b, h, j), s.pair_at(b, h, i, j), mistake));
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
    for (size_t n = 0; saved_ == Saved::kSoftmax && n < scores.size(); ++n)
      delta += weights[n] * scores[n].grad;
    for (int64_t c = 0; saved_ != Saved::kSoftmax && c < columns; ++c) {
      float o = s.o.number[at * columns + c];
      if (saved_ == Saved::kOwn) {
        o = 0;
        for (const Score& of : scores)
          o = std::fma(rounded(s.p.dtype, std::exp2((of.x - most) * 1.44269504f)),
                       s.v.number[of.key * columns + c], o);
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
  for (const auto& [tensor, got] : {std::pair{TensorId::kDq, &kernel.dq},
                                    {TensorId::kDk, &kernel.dk},
                                    {TensorId::kDv, &kernel.dv},
                                    {TensorId::kDbias, &kernel.dbias},
                                    {TensorId::kDsink, &kernel.dsink}}) {
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

// Checks that the bound holds for right kernels on small problems, which `change` alters by their seed, whatever
// the kernels save.
void expect_bounded(uint64_t seeds, uint64_t first, void (Small::*change)(uint64_t)) {
  for (const Saved saved : {Saved::kGiven, Saved::kOwn, Saved::kSoftmax}) {
    std::vector<double> ratios;
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        Small s(dtype, seed + first);
        (s.*change)(seed);
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

TEST(Gradients, BoundKernelsOverListedBlocks) { expect_bounded(300, 40000, &Small::take_lists); }

TEST(Gradients, BoundKernelsWithSinksDlseAndDbias) { expect_bounded(400, 20000, &Small::add_more); }

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
    std::printf(
        "%zu elements, error/bound %.3f at most, median %.3f; %d kernels beyond the bound of a given O\n",
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

}  // namespace
}  // namespace attnfuzz
