#include "properties/train_step/model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "properties/judge/judge.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::train {
namespace {

// Draws `count` uniform numbers with the standard deviation `deviation`.
std::vector<double> drawn(SplitMix64& random, int64_t count, double deviation) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& x : numbers) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    x = deviation * std::sqrt(3.0) * (2 * unit - 1);
  }
  return numbers;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<double> first_gates(Gates gates, SplitMix64& random, int64_t count) {
  std::vector<double> logits = drawn(random, count, 1);
  if (gates == Gates::kEqual) std::ranges::fill(logits, 0.0);
  if (gates == Gates::kZero) std::ranges::fill(logits, -std::numeric_limits<double>::infinity());
  return logits;
}

// to (inner x columns) += a (rows x inner) transposed * b (rows x columns)
void add_transposed_product(std::span<const double> a, std::span<const double> b, int64_t rows,
                            std::vector<double>& to) {
  const auto inner = static_cast<int64_t>(a.size()) / rows, columns = static_cast<int64_t>(b.size()) / rows;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < inner; ++i) {
      const double factor = a[static_cast<size_t>(row * inner + i)];
      for (int64_t c = 0; c < columns; ++c)
        to[static_cast<size_t>(i * columns + c)] += factor * b[static_cast<size_t>(row * columns + c)];
    }
  }
}

// to (rows x width) += d (rows x columns) * weights (width x columns) transposed
void add_through(std::span<const double> d, std::span<const double> weights, int64_t rows,
                 std::vector<double>& to) {
  const auto columns = static_cast<int64_t>(d.size()) / rows, width = static_cast<int64_t>(to.size()) / rows;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c)
        sum += d[static_cast<size_t>(row * columns + c)] * weights[static_cast<size_t>(i * columns + c)];
      to[static_cast<size_t>(row * width + i)] += sum;
    }
  }
}

}  // namespace

ModelShape ModelShape::with(const std::vector<int64_t>& lengths_of_sequences) const {
  ModelShape shape = *this;
  shape.lengths = lengths_of_sequences;
  return shape;
}

std::vector<std::pair<const char*, std::vector<double>*>> Parameters::all() {
  return {{"the embedding", &embedding}, {"Wq", &wq}, {"Wk", &wk}, {"Wv", &wv}, {"the gates", &gates}};
}

Model::Model(const ModelShape& shape, uint64_t seed) : shape_(shape) {
  SplitMix64 random{hash64(seed)};
  for (const int64_t length : shape.lengths) {
    for (int64_t i = 0; i < length; ++i) words_.push_back(random.below(shape.words));
  }
  const int64_t columns_q = shape.heads_q * shape.dim, columns_kv = shape.heads_kv * shape.dim;
  const double deviation = 1 / std::sqrt(static_cast<double>(shape.width));
  parameters_.embedding = drawn(random, shape.words * shape.width, 1);
  parameters_.wq = drawn(random, shape.width * columns_q, deviation);
  parameters_.wk = drawn(random, shape.width * columns_kv, deviation);
  parameters_.wv = drawn(random, shape.width * columns_kv, deviation);
  parameters_.gates = first_gates(shape.gates, random, shape.heads_q * shape.branches);
  targets_ = drawn(random, tokens() * columns_q, 1);
  loss_scale_ = static_cast<double>(std::bit_ceil(std::max<uint64_t>(targets_.size(), 1)));
}

double Model::in_format(double x) const {
  if (shape_.dtype == ATTN_NONE) return x;
  const uint16_t bits = encode16(shape_.dtype, static_cast<float>(x));
  return decode(shape_.dtype, &bits, 0);
}

std::vector<double> Model::gates() const {
  std::vector<double> gates;
  for (const double logit : parameters_.gates)
    gates.push_back(shape_.branches > 1 ? in_format(sigmoid(logit)) : sigmoid(logit));
  return gates;
}

std::vector<double> Model::project(std::span<const double> x, std::span<const double> weights,
                                   int64_t columns) const {
  std::vector<double> y(static_cast<size_t>(tokens() * columns));
  for (int64_t t = 0; t < tokens(); ++t) {
    double* row = &y[static_cast<size_t>(t * columns)];
    for (int64_t i = 0; i < shape_.width; ++i) {
      for (int64_t c = 0; c < columns; ++c)
        row[c] += x[static_cast<size_t>(t * shape_.width + i)] * weights[static_cast<size_t>(i * columns + c)];
    }
    for (int64_t c = 0; c < columns; ++c) row[c] = in_format(row[c]);
  }
  return y;
}

Activations Model::project() const {
  Activations a;
  for (const int64_t word : words_) {
    for (int64_t i = 0; i < shape_.width; ++i)
      a.x.push_back(in_format(parameters_.embedding[static_cast<size_t>(word * shape_.width + i)]));
  }
  a.q = project(a.x, parameters_.wq, shape_.heads_q * shape_.dim);
  a.k = project(a.x, parameters_.wk, shape_.heads_kv * shape_.dim);
  a.v = project(a.x, parameters_.wv, shape_.heads_kv * shape_.dim);
  return a;
}

size_t Model::gate_of(size_t n, int64_t c) const {
  const size_t head = n / static_cast<size_t>(shape_.dim) % static_cast<size_t>(shape_.heads_q);
  return head * static_cast<size_t>(shape_.branches) + static_cast<size_t>(c);
}

double Model::slope(std::span<const double> y, size_t n) const {
  return 2 * (y[n] - targets_[n]) / static_cast<double>(targets_.size());
}

std::vector<double> Model::sum(const Branches& o) const {
  const std::vector<double> g = gates();
  std::vector<double> y(targets_.size());
  for (int64_t c = 0; c < shape_.branches; ++c) {
    for (size_t n = 0; n < y.size(); ++n) y[n] += g[gate_of(n, c)] * o[static_cast<size_t>(c)][n];
  }
  return y;
}

double Model::loss(std::span<const double> y) const {
  double sum = 0;
  for (size_t n = 0; n < targets_.size(); ++n) sum += std::pow(y[n] - targets_[n], 2);
  return sum / static_cast<double>(targets_.size());
}

std::vector<double> Model::gradient_of_branch(int64_t c, std::span<const double> y) const {
  const std::vector<double> g = gates();
  std::vector<double> dout(targets_.size());
  for (size_t n = 0; n < targets_.size(); ++n)
    dout[n] = in_format(loss_scale_ * g[gate_of(n, c)] * slope(y, n));
  return dout;
}

Parameters Model::gradients(const Activations& a, std::span<const double> y, const Branches& o,
                            const Activations& of_inputs) const {
  const std::vector<double> g = gates();
  Parameters d;
  d.gates.assign(g.size(), 0.0);
  for (int64_t c = 0; c < shape_.branches; ++c) {
    for (size_t n = 0; n < targets_.size(); ++n) {
      const size_t at = gate_of(n, c);
      d.gates[at] += slope(y, n) * o[static_cast<size_t>(c)][n] * g[at] * (1 - g[at]);
    }
  }
  std::vector<double> dx(a.x.size());
  const auto through = [&](std::span<const double> of_result, const std::vector<double>& weights) {
    std::vector<double> of_weights(weights.size());
    add_transposed_product(a.x, of_result, tokens(), of_weights);
    for (double& x : of_weights) x /= loss_scale_;
    add_through(of_result, weights, tokens(), dx);
    return of_weights;
  };
  d.wq = through(of_inputs.q, parameters_.wq);
  d.wk = through(of_inputs.k, parameters_.wk);
  d.wv = through(of_inputs.v, parameters_.wv);
  d.embedding.assign(parameters_.embedding.size(), 0.0);
  for (int64_t t = 0; t < tokens(); ++t) {
    for (int64_t i = 0; i < shape_.width; ++i)
      d.embedding[static_cast<size_t>(words_[static_cast<size_t>(t)] * shape_.width + i)] +=
          dx[static_cast<size_t>(t * shape_.width + i)] / loss_scale_;
  }
  return d;
}

void Model::update(const Parameters& gradients, double rate) {
  Parameters d = gradients;
  const auto mine = parameters_.all(), theirs = d.all();
  for (size_t n = 0; n < mine.size(); ++n) {
    for (size_t i = 0; i < mine[n].second->size(); ++i) (*mine[n].second)[i] -= rate * (*theirs[n].second)[i];
  }
}

std::string note_on_gates(std::span<const double> gates) {
  if (gates.size() < 2 || std::ranges::any_of(gates, [&](double g) { return g != gates.front(); })) return "";
  std::string note = "all gates are equal (" + digits(gates.front()) + "): ";
  return note + (gates.front() == 0
                     ? "nothing of O reaches the loss, and dO is 0. Is the gates' last layer all zero?"
                     : "every head has the same weight. Is the gates' last layer all zero?");
}

std::string not_finite(Parameters parameters) {
  for (const auto& [name, numbers] : parameters.all()) {
    if (std::ranges::any_of(*numbers, [](double x) { return !std::isfinite(x); })) return name;
  }
  return "";
}

}  // namespace attnfuzz::train
