// The scores of single rows in double precision, for whoever looks into a
// kernel: what a probe's intermediates should have been, where a wrong value
// may come from. The oracle (reference/) judges; this explains, and is as
// literal as the formula in attention.h.
//
//   RowOracle oracle(c, plan);
//   const ExactRow row = oracle.row(b, h, i);   // row.x[j]: -inf where key j is hidden
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention.h"
#include "properties/case/case.h"

namespace attnfuzz {

struct ExactRow {
  std::vector<double> product;  // q.k_j; of hidden keys, too
  std::vector<double> x;        // the score; -inf where the key is hidden
  // How far from x a score in fp32 may lie: products summed in blocks that
  // truncate, scale, cap and bias rounded. Twice what is provable: it tells
  // arithmetic from mistakes, and judges nothing.
  std::vector<double> tolerance;
  std::vector<double> product_tolerance;
};

// Why a RowOracle cannot be had of a problem, in a sentence; empty: it can.
std::string cannot_score(const Problem& problem);

class RowOracle {
 public:
  // Both must outlive it. The case must be legal. Throws UnknownFeatures for a kind of problem that row() does
  // not know: ask cannot_score() first.
  RowOracle(const Case& c, const attn_plan& plan);

  ExactRow row(int64_t b, int64_t h, int64_t i);
  // V of the KV head that query head h reads, seq_k x dim_v.
  const std::vector<double>& values(int64_t b, int64_t h);
  int64_t kv_head(int64_t h) const {
    return kv_head_ ? kv_head_(h) : h / (c_.problem.heads_q / c_.problem.heads_kv);
  }
  // Another reading of which KV head a query head has.
  void read_kv_heads_as(std::function<int64_t(int64_t h)> kv_head) { kv_head_ = std::move(kv_head); }

 private:
  const std::vector<double>& matrix(TensorId t, int64_t b, int64_t head);

  const Case& c_;
  const attn_plan& plan_;
  std::function<int64_t(int64_t)> kv_head_;
  std::map<std::pair<TensorId, std::pair<int64_t, int64_t>>, std::vector<double>> matrices_;
};

}  // namespace attnfuzz
