// A block of query rows while their pairs are evaluated, and the sums that the pairs go to.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/call/row_space.h"
#include "reference/call/sequences.h"
#include "reference/gradients/gradient_pairs.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace attnfuzz::gradients {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Rows of one input, with numbers that are not finite replaced by 0.
struct Rows {
  Matrix value, size;          // size: |value|, raised as the tensor core aligns it
  std::vector<double> norm;    // sum |value| of each row
  std::vector<double> most;    // max |value| of each row
  std::vector<Taint> taint;    // of each row
  std::vector<Taint> element;  // of each element; empty if all are finite
  std::vector<bool> column;    // true: the column holds a number that is not finite

  void resize(int64_t rows, int64_t columns) {
    value.resize(rows, columns);
    size.resize(rows, columns);
    norm.assign(static_cast<size_t>(rows), 0);
    most.assign(static_cast<size_t>(rows), 0);
    taint.assign(static_cast<size_t>(rows), kPure);
    element.clear();
    column.assign(static_cast<size_t>(columns), false);
  }
  void load(int64_t row, int32_t dtype, const attn_tensor& from, const StoredRow& at, int64_t h, double least) {
    const int64_t n = value.cols();
    decode_strided(dtype, from.data, offset_of(from, at.entry, h, at.row, 0), from.stride[3], n,
                   value.row(row).data());
    for (int64_t c = 0; c < n; ++c) {
      double& x = value(row, c);
      if (const Taint taint_here = taint_of(x); taint_here != kPure) mark(row, c, taint_here), x = 0;
      const double magnitude = std::abs(x);
      norm[static_cast<size_t>(row)] += magnitude;
      most[static_cast<size_t>(row)] = std::max(most[static_cast<size_t>(row)], magnitude);
      size(row, c) = magnitude > 0 ? std::max(magnitude, least) : 0;
    }
  }
  bool pure() const { return element.empty(); }

 private:
  void mark(int64_t row, int64_t c, Taint is) {
    if (element.empty()) element.assign(static_cast<size_t>(value.size()), kPure);
    element[static_cast<size_t>(row * value.cols() + c)] = is;
    taint[static_cast<size_t>(row)] = std::max(taint[static_cast<size_t>(row)], is);
    column[static_cast<size_t>(c)] = true;
  }
};

// A sum over pairs as it grows: its value, the error of each element, and what is not a number.
struct Sums {
  Matrix value, bound;
  std::vector<Taint> taint;  // of each element; empty if all are pure
  void clear(int64_t rows, int64_t columns) {
    value.setZero(rows, columns);
    bound.setZero(rows, columns);
    taint.clear();
  }
  void mark(int64_t row, int64_t column, Taint is) {
    if (is == kPure) return;
    if (taint.empty()) taint.assign(static_cast<size_t>(value.size()), kPure);
    Taint& at = taint[static_cast<size_t>(row * value.cols() + column)];
    at = std::max(at, is);
  }
  void mark_row(int64_t row, Taint is) {
    for (int64_t c = 0; is != kPure && c < value.cols(); ++c) mark(row, c, is);
  }
};

// The pairs of a key: their number, and the number of blocks of the mma that hold one. `a` and `p`: sums of
// |dA| and P over the pairs that are evaluated.
struct KeyPairs {
  int64_t pairs = 0, blocks = 0, last = -1;
  double a = 0, p = 0;
};

// One block of query rows, and the keys that any of them needs.
struct Block {
  struct Query {
    int64_t row;  // of RowSpace
    Row at;
    bool wanted;                                  // its dQ is judged
    std::vector<int64_t> keys;                    // the needed keys that it sees
    int64_t pairs, blocks;                        // keys that it sees; blocks of the mma that hold one
    double lse, gradient, gradient_size;          // lam, D, sum|dO o|
    double gradient_factors = 0;                  // sum|dO| + sum|o|
    double lse_error = 0, gradient_error = 0;     // if a kernel computes O and LSE by itself
    double a = 0;                                 // sum of |dA|
    Taint taint;                                  // of q, lse, o, dO, dLSE
    Taint row_taint = kPure;                      // of lse, o, dO, dLSE
    Taint lse_taint = kPure, sink_taint = kPure;  // of lse; of all inputs of its term of dsink
    double sink = -kInfinity;                     // -infinity: there is none
    double dlse = 0;                              // dLSE
    double lse_apart = 0, lse_apart_error = 0;    // the LSE without the sink, if dLSE is its gradient
  };
  std::vector<Query> queries;
  std::vector<int64_t> keys;
  std::vector<int64_t> place;  // of each key among `keys`; -1: not there
  Rows q, dout;
  Matrix k, k_size, v, v_size;  // of `keys`
  Matrix dot, dot_size, grad, grad_size;
  Matrix da, p, of_q, of_k, of_v;  // dA, P, and the weights of |k|, |q| and |dO| in the bounds
  std::vector<Taint> s_taint, p_taint;
};

}  // namespace attnfuzz::gradients
