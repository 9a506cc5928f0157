// Gradients that are sums over pairs or over queries without a product: dbias and dsink.
//
//   BiasSums dbias(problem, host);               // if the problem asks for it
//   dbias.add(terms, model, row, j, factor);
//   dbias.write(terms, &reference[TensorId::kDbias]);
//
// dbias = dS of a pair, summed over the dimensions in which dbias has a stride of 0. With E^S of gradients.h,
// over the n pairs of an element in which the query sees the key:
//
//   E^S  += u_O (|dS| + E^S) + eta_O                 if the plan rounds dS of a pair first (head_format)
//   B     = sum E^S + gamma(n - 1, u) sum(|dS| + E^S) + n f       fp32 additions in any order
//   B    += u_b (|r| + B) + eta_b                                 the bias's format
//
// An element without such a pair is 0, with a bound of 0.
//
// dsink is a sum over all queries of a head. With the error of each term (sink_term()), over n queries:
//
//   B     = sum E + gamma(n, u) sum(|t| + E) + n f,  then u (|r| + B) + f: it is fp32
#pragma once

#include <vector>

#include "reference/call/expected.h"
#include "reference/call/row_space.h"
#include "reference/gradients/gradient_pairs.h"

namespace attnfuzz::gradients {

// Writes element `at` of an output.
void write(const Element& element, size_t at, Expected* to);

class BiasSums {
 public:
  BiasSums(const attn_problem& problem, const attn_tensors& host);
  bool wanted() const { return wanted_; }
  void add(const Terms& terms, const ErrorModel& model, const Row& at, int64_t j, const Factor& of);
  void mark(const Row& at, int64_t j, Taint is) { sums_[place(at, j)].mark(is); }
  void write(const Terms& terms, Expected* to) const;

 private:
  size_t place(const Row& at, int64_t j) const;

  const attn_problem& p_;
  bool wanted_;
  Row full_ = {};  // 1 for a dimension with all its indices, 0 for one that is stored once
  int64_t heads_ = 0, queries_ = 0;
  std::vector<TermSum> sums_;
};

}  // namespace attnfuzz::gradients
