#include "properties/data/row_scores.h"

#include <cmath>
#include <limits>

#include "properties/case/codec/as_contract.h"
#include "properties/data/recipe.h"
#include "reference/call/known_features.h"
#include "reference/numbers/formats.h"
#include "reference/semantics.h"

namespace attnfuzz {

namespace {

constexpr KnownFeatures kKnown = {"the trace of single scores", ATTN_FEATURE_F32 | ATTN_FEATURE_KEY_STEP};

}  // namespace

std::string cannot_score(const Problem& problem) {
  return unknown_features(kKnown, problem_of(problem).features);
}

RowOracle::RowOracle(const Case& c, const attn_plan& plan) : c_(c), plan_(plan) {
  require_known(kKnown, problem_of(c.problem).features);
}

const std::vector<double>& RowOracle::matrix(TensorId t, int64_t b, int64_t head) {
  auto [it, added] = matrices_.try_emplace({t, {b, head}});
  if (added) it->second = matrix_at(c_, t, b, head);
  return it->second;
}

const std::vector<double>& RowOracle::values(int64_t b, int64_t h) {
  return matrix(TensorId::kV, b, kv_head(h));
}

ExactRow RowOracle::row(int64_t b, int64_t h, int64_t i) {
  constexpr double u = 0x1p-24;
  const Problem& p = c_.problem;
  const double* q = matrix(TensorId::kQ, b, h).data() + i * p.dim_qk;
  const std::vector<double>& keys = matrix(TensorId::kK, b, kv_head(h));
  const double u_q = format_of(p.dtype).unit;
  const double tanh_error = plan_.tanh_class == ATTN_TANH_TANHF ? 16 * u : 0x1p-10;
  ExactRow row;
  for (int64_t j = 0; j < p.seq_k; ++j) {
    const double* k = keys.data() + j * p.dim_qk;
    double product = 0, absolute = 0;
    for (int64_t d = 0; d < p.dim_qk; ++d) {
      product += q[d] * k[d];
      absolute += std::fabs(q[d] * k[d]);
    }
    // Each of d additions loses at most a unit in the last place if it truncates.
    const double off = 4 * static_cast<double>(p.dim_qk + 32) * u * absolute;
    double tolerance = std::fabs(p.scale) * off + 8 * u * std::fabs(p.scale * product);
    if (plan_.scale_mode == ATTN_SCALE_FOLDED_Q) tolerance += 2 * u_q * std::fabs(p.scale) * absolute;
    if (p.softcap > 0) tolerance += p.softcap * 2 * tanh_error;
    const double bias = p.bias ? bias_at(c_, b, h, i, j) : 0;
    if (p.bias) tolerance += 8 * u * (std::fabs(score(p, product, 0)) + std::fabs(bias));
    const double x = score(p, product, bias);
    const bool seen = sees(c_, b, h, i, j);
    row.product.push_back(product);
    row.product_tolerance.push_back(off);
    row.x.push_back(seen ? x : -std::numeric_limits<double>::infinity());
    row.tolerance.push_back(seen ? tolerance : 0);
  }
  return row;
}

}  // namespace attnfuzz
