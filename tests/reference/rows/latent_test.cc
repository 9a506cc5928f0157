// Compares the oracle with a plain loop for heads of more than 256 columns, and for V in K's first columns.
#include <gtest/gtest.h>

#include <cmath>

#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/support.h"

namespace attnfuzz {
namespace {

// O and LSE of one row in double, by the contract's formulas; reads only K's memory.
struct PlainRow {
  std::vector<double> o;
  double lse = -INFINITY;
};

PlainRow plain_row(Case& c, const Row& at) {
  const attn_problem& p = c.problem;
  const int64_t g = at.h / (p.heads_q / p.heads_kv);
  const auto key = [&](int64_t j, int64_t t) {
    return decode(p.dtype, c.k.data(), ((at.b * p.heads_kv + g) * p.seq_k + j) * p.dim_qk + t);
  };
  std::vector<double> x(static_cast<size_t>(p.seq_k), -INFINITY);
  double sum = 0;
  for (int64_t j = 0; j < p.seq_k; ++j) {
    if (!sees(p, c.tensors(), at.b, at.h, at.i, j)) continue;
    double dot = 0;
    for (int64_t t = 0; t < p.dim_qk; ++t)
      dot += decode(p.dtype, c.q.data(), ((at.b * p.heads_q + at.h) * p.seq_q + at.i) * p.dim_qk + t) * key(j, t);
    x[static_cast<size_t>(j)] = dot * p.scale;
    sum += std::exp(dot * p.scale);
  }
  PlainRow row = {std::vector<double>(static_cast<size_t>(p.dim_v)), std::log(sum)};
  for (int64_t j = 0; j < p.seq_k; ++j) {
    const double weight = sum > 0 ? std::exp(x[static_cast<size_t>(j)]) / sum : 0;
    for (int64_t d = 0; d < p.dim_v; ++d) row.o[static_cast<size_t>(d)] += weight * key(j, d);
  }
  return row;
}

void expect_plain(Case& c) {
  c.problem.features |= ATTN_FEATURE_LATENT;
  c.problem.latent = 1;
  c.problem.scale = 0.02f;
  attn_tensors tensors = c.tensors();
  tensors.v = tensors.k;
  const Reference r = evaluate(c.problem, tensors, c.plan, documented());
  for (int64_t row = 0; row < r.rows; ++row) {
    const PlainRow due = plain_row(c, RowSpace(c.problem).at(row));
    for (int64_t d = 0; d < c.problem.dim_v; ++d) {
      const double got = r[TensorId::kO].value[static_cast<size_t>(row * c.problem.dim_v + d)];
      ASSERT_NEAR(got, due.o[static_cast<size_t>(d)], 1e-12) << "row " << row << " column " << d;
    }
    const double lse = r[TensorId::kLse].value[static_cast<size_t>(row)];
    ASSERT_TRUE(lse == due.lse || std::abs(lse - due.lse) < 1e-12)
        << "row " << row << ": " << lse << ", not " << due.lse;
  }
}

TEST(Latent, TheOracleReadsVFromK) {
  for (const auto& [qk, v] : {std::pair{16, 16}, {16, 5}, {192, 128}, {264, 257}, {576, 512}, {1024, 1024}}) {
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
      Case c({.dtype = dtype, .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_k = 9, .dim_qk = qk, .dim_v = v,
              .causal = true, .align = ATTN_BOTTOM_RIGHT});
      if (std::max(qk, v) > 256) c.problem.features |= ATTN_FEATURE_WIDE;
      c.fill(Regime::kGaussian, 3);
      expect_plain(c);
    }
  }
}

// More queries than keys: the first have no key.
TEST(Latent, RowsWithoutAKey) {
  Case c({.heads_q = 2, .seq_q = 4, .seq_k = 2, .dim_qk = 300, .dim_v = 270, .causal = true,
          .align = ATTN_BOTTOM_RIGHT});
  c.problem.features |= ATTN_FEATURE_WIDE;
  c.fill(Regime::kGaussian, 4);
  expect_plain(c);
}

}  // namespace
}  // namespace attnfuzz
