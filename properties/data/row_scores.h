// The scores of single rows in double precision. Probes compare a kernel's intermediates with them, and
// traces look for the source of a wrong value. They explain only; the oracle (reference/) judges. The code
// follows the formula of attention.h literally.
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
  std::vector<double> product;  // q.k_j, also of hidden keys
  std::vector<double> x;        // the score; -inf where the key is hidden
  // The distance from x that a score in fp32 may have: products are summed in blocks that truncate; scale, cap
  // and bias are rounded. It is twice the bound that can be proved. It separates rounding from mistakes; no
  // verdict uses it.
  std::vector<double> tolerance;
  std::vector<double> product_tolerance;
};

// The reason why a RowOracle cannot handle a problem; empty if it can.
std::string cannot_score(const Problem& problem);

class RowOracle {
 public:
  // Both arguments must outlive it. The case must be legal. Throws UnknownFeatures for a problem that row()
  // does not know; call cannot_score() first.
  RowOracle(const Case& c, const attn_plan& plan);

  ExactRow row(int64_t b, int64_t h, int64_t i);
  // V of the KV head that query head h reads, seq_k x dim_v.
  const std::vector<double>& values(int64_t b, int64_t h);
  int64_t kv_head(int64_t h) const {
    return kv_head_ ? kv_head_(h) : h / (c_.problem.heads_q / c_.problem.heads_kv);
  }
  // Replaces the mapping from query heads to KV heads.
  void read_kv_heads_as(std::function<int64_t(int64_t h)> kv_head) { kv_head_ = std::move(kv_head); }

 private:
  const std::vector<double>& matrix(TensorId t, int64_t b, int64_t head);

  const Case& c_;
  const attn_plan& plan_;
  std::function<int64_t(int64_t)> kv_head_;
  std::map<std::pair<TensorId, std::pair<int64_t, int64_t>>, std::vector<double>> matrices_;
};

}  // namespace attnfuzz
