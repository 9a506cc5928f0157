// A model of one layer around attention, so small that its derivatives are written out by hand.
//
//   X = embedding[token], in 16 bits          Q = X Wq, K = X Wk, V = X Wv, in 16 bits
//   O_c = attention(Q, K, V) of branch c      Y = sum_c g_hc O_c of each head h, g_hc = sigmoid(gate_hc)
//   loss = mean of (Y - target)^2             SGD: parameter -= rate * gradient
//
// Dense attention is one branch. Native sparse attention has three, and a kernel computes their sum.
//
// The parameters and all sums are in double. The model knows no kernel and no layout: attention and its
// gradients are handed in. An activation is (token, head, column), dense; the tokens of all sequences stand one
// behind the other.
//
//   Model model(shape, seed);
//   const Activations a = model.project();             // Q, K, V for the kernels
//   const std::vector<double> y = model.sum({o});
//   const std::vector<double> dout = model.gradient_of_branch(0, y);
//   model.update(model.gradients(a, y, {o}, {dq, dk, dv}), rate);
//
// As training in 16 bits does, the backward pass works on loss_scale() times the loss, because dO of a mean
// over thousands of elements would be subnormal in fp16. gradients() divides by it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace attnfuzz::train {

// How the gates begin.
enum class Gates : uint8_t {
  kDrawn,  // each head has its own
  kEqual,  // all are sigmoid(0) = 1/2, as if their last layer were zeros
  kZero    // all are 0: dO is 0, and so are all gradients
};

struct ModelShape {
  std::vector<int64_t> lengths;  // tokens of each sequence
  int64_t heads_q = 2, heads_kv = 1, dim = 16;
  int64_t width = 16, words = 32;  // of the embedding: columns and rows
  int64_t branches = 1;
  int32_t dtype = ATTN_F16;  // of activations; ATTN_NONE: they stay in double, for tests of the derivatives
  Gates gates = Gates::kDrawn;

  ModelShape with(const std::vector<int64_t>& lengths_of_sequences) const;
};

// Row-major matrices. As gradients: the derivative of the loss by each of them.
struct Parameters {
  std::vector<double> embedding;   // words x width
  std::vector<double> wq, wk, wv;  // width x (heads * dim)
  std::vector<double> gates;       // query heads x branches, before the sigmoid

  // All matrices with their names, in one order.
  std::vector<std::pair<const char*, std::vector<double>*>> all();
};

struct Activations {
  std::vector<double> x, q, k, v;
};

// O of each branch.
using Branches = std::vector<std::vector<double>>;

class Model {
 public:
  Model(const ModelShape& shape, uint64_t seed);

  int64_t tokens() const { return static_cast<int64_t>(words_.size()); }
  Parameters& parameters() { return parameters_; }
  double loss_scale() const { return loss_scale_; }
  // The gates after the sigmoid, query heads x branches. The gates of several branches are inputs of a kernel,
  // so they are in 16 bits.
  std::vector<double> gates() const;

  Activations project() const;
  // Y, for a model whose sum no kernel computes.
  std::vector<double> sum(const Branches& o) const;
  double loss(std::span<const double> y) const;
  // dO of branch c: loss_scale() times the derivative of the loss by O_c, in 16 bits.
  std::vector<double> gradient_of_branch(int64_t c, std::span<const double> y) const;
  // `of_inputs`: dq, dk, dv for these dO; x is not read.
  Parameters gradients(const Activations& a, std::span<const double> y, const Branches& o,
                       const Activations& of_inputs) const;
  void update(const Parameters& gradients, double rate);

 private:
  // The derivative of the loss by element n of Y, and the place of branch c's gate for this element.
  double slope(std::span<const double> y, size_t n) const;
  size_t gate_of(size_t n, int64_t c) const;
  double in_format(double x) const;
  std::vector<double> project(std::span<const double> x, std::span<const double> weights,
                              int64_t columns) const;

  const ModelShape shape_;
  std::vector<int64_t> words_;  // the word of each token
  std::vector<double> targets_;
  Parameters parameters_;
  double loss_scale_ = 1;
};

// A note if all heads have the same gate; empty if two gates differ, or if there is only one head.
std::string note_on_gates(std::span<const double> gates);

// The name of the first matrix that holds a number that is not finite; empty: all are finite.
std::string not_finite(Parameters parameters);

}  // namespace attnfuzz::train
