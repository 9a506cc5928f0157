#include "properties/train_step/model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attnfuzz::train {
namespace {

// Causal attention in double on a model's activations, and its gradients, written out in full.
class Attention {
 public:
  Attention(const ModelShape& shape, const Activations& a) : shape_(shape), a_(a), o(a.q.size()) {
    each_row([&](int64_t i, int64_t h, int64_t first) {
      const std::vector<double> p = weights(i, h, first);
      for (int64_t j = first; j <= i; ++j) {
        for (int64_t c = 0; c < shape_.dim; ++c) o[of_q(i, h) + c] += p[j - first] * a_.v[of_kv(j, h) + c];
      }
    });
  }

  Activations gradients(const std::vector<double>& dout) const {
    Activations d = {{},
                     std::vector<double>(a_.q.size()),
                     std::vector<double>(a_.k.size()),
                     std::vector<double>(a_.v.size())};
    each_row([&](int64_t i, int64_t h, int64_t first) {
      const std::vector<double> p = weights(i, h, first);
      for (int64_t j = first; j <= i; ++j) {
        double dp = 0;
        for (int64_t c = 0; c < shape_.dim; ++c)
          dp += dout[of_q(i, h) + c] * (a_.v[of_kv(j, h) + c] - o[of_q(i, h) + c]);
        const double ds = scale() * p[j - first] * dp;
        for (int64_t c = 0; c < shape_.dim; ++c) {
          d.q[of_q(i, h) + c] += ds * a_.k[of_kv(j, h) + c];
          d.k[of_kv(j, h) + c] += ds * a_.q[of_q(i, h) + c];
          d.v[of_kv(j, h) + c] += p[j - first] * dout[of_q(i, h) + c];
        }
      }
    });
    return d;
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(shape_.dim)); }
  size_t of_q(int64_t i, int64_t h) const { return static_cast<size_t>((i * shape_.heads_q + h) * shape_.dim); }
  size_t of_kv(int64_t j, int64_t h) const {
    return static_cast<size_t>((j * shape_.heads_kv + h / (shape_.heads_q / shape_.heads_kv)) * shape_.dim);
  }
  template <class Work>
  void each_row(const Work& work) const {
    int64_t first = 0;
    for (const int64_t length : shape_.lengths) {
      for (int64_t i = first; i < first + length; ++i) {
        for (int64_t h = 0; h < shape_.heads_q; ++h) work(i, h, first);
      }
      first += length;
    }
  }
  std::vector<double> weights(int64_t i, int64_t h, int64_t first) const {
    std::vector<double> p;
    double sum = 0;
    for (int64_t j = first; j <= i; ++j) {
      double score = 0;
      for (int64_t c = 0; c < shape_.dim; ++c) score += a_.q[of_q(i, h) + c] * a_.k[of_kv(j, h) + c];
      p.push_back(std::exp(scale() * score));
      sum += p.back();
    }
    for (double& x : p) x /= sum;
    return p;
  }

  const ModelShape shape_;
  const Activations a_;

 public:
  std::vector<double> o;
};

const ModelShape kSmall = {
    .lengths = {5, 0, 3}, .heads_q = 4, .heads_kv = 2, .dim = 3, .width = 4, .words = 5, .dtype = ATTN_NONE};

ModelShape of_three_branches() {
  ModelShape shape = kSmall;
  shape.branches = 3;
  return shape;
}

// Branch c of this test is attention times 1, 2, ...
double share_of(int64_t c) { return static_cast<double>(c + 1); }
Branches branches_of(const ModelShape& shape, const std::vector<double>& o) {
  Branches all;
  for (int64_t c = 0; c < shape.branches; ++c) {
    all.push_back(o);
    for (double& x : all.back()) x *= share_of(c);
  }
  return all;
}

Parameters gradients_of(const ModelShape& shape, Model& model) {
  const Activations a = model.project();
  const Attention attention(shape, a);
  const Branches o = branches_of(shape, attention.o);
  const std::vector<double> y = model.sum(o);
  Activations of_inputs;
  for (int64_t c = 0; c < shape.branches; ++c) {
    std::vector<double> dout = model.gradient_of_branch(c, y);
    for (double& x : dout) x *= share_of(c);
    const Activations d = attention.gradients(dout);
    for (const auto part : {&Activations::q, &Activations::k, &Activations::v}) {
      (of_inputs.*part).resize((d.*part).size());
      for (size_t n = 0; n < (d.*part).size(); ++n) (of_inputs.*part)[n] += (d.*part)[n];
    }
  }
  return model.gradients(a, y, o, of_inputs);
}

double loss_of(const ModelShape& shape, const Model& model) {
  return model.loss(model.sum(branches_of(shape, Attention(shape, model.project()).o)));
}

void expect_finite_differences(const ModelShape& shape) {
  Model model(shape, 7);
  Parameters gradients = gradients_of(shape, model);
  const auto mine = model.parameters().all(), theirs = gradients.all();
  for (size_t n = 0; n < mine.size(); ++n) {
    ASSERT_EQ(mine[n].second->size(), theirs[n].second->size()) << mine[n].first;
    double largest = 0;
    for (const double x : *theirs[n].second) largest = std::max(largest, std::fabs(x));
    EXPECT_GT(largest, 1e-4) << mine[n].first;
    for (size_t i = 0; i < mine[n].second->size(); ++i) {
      constexpr double kStep = 1e-5;
      double& x = (*mine[n].second)[i];
      const double at = x;
      x = at + kStep;
      const double above = loss_of(shape, model);
      x = at - kStep;
      const double below = loss_of(shape, model);
      x = at;
      EXPECT_NEAR((above - below) / (2 * kStep), (*theirs[n].second)[i], 1e-6 * largest)
          << mine[n].first << " " << i;
    }
  }
}

TEST(Model, GradientsAreTheFiniteDifferencesOfTheLoss) {
  expect_finite_differences(kSmall);
  expect_finite_differences(of_three_branches());
}

TEST(Model, AnUpdateLowersTheLoss) {
  Model model(kSmall, 3);
  const double before = loss_of(kSmall, model);
  model.update(gradients_of(kSmall, model), 0.1);
  EXPECT_LT(loss_of(kSmall, model), before);
}

TEST(Model, ZeroGatesStopAllGradientsAndStayZero) {
  ModelShape shape = kSmall;
  shape.gates = Gates::kZero;
  Model model(shape, 1);
  EXPECT_EQ(note_on_gates(model.gates()).find("all gates are equal (0)"), 0u);
  Parameters gradients = gradients_of(shape, model);
  EXPECT_EQ(not_finite(gradients), "");
  for (const auto& [name, numbers] : gradients.all()) {
    for (const double x : *numbers) EXPECT_EQ(x, 0) << name;
  }
  model.update(gradients, 1);
  EXPECT_THAT(model.gates(), testing::Each(0.0));
}

TEST(Model, GatesThatDifferAreNotNoted) {
  EXPECT_EQ(note_on_gates(std::vector<double>{0.5, 0.25}), "");
  EXPECT_EQ(note_on_gates(std::vector<double>{0.5}), "");
  EXPECT_NE(note_on_gates(std::vector<double>{0.5, 0.5}), "");
}

TEST(Model, NamesNonFiniteValues) {
  Model model(kSmall, 1);
  Parameters p = model.parameters();
  p.wk[2] = std::nan("");
  EXPECT_EQ(not_finite(p), "Wk");
}

}  // namespace
}  // namespace attnfuzz::train
