// The rows of a result: one for each query of each batch entry and head, numbered in the order (b, h, i).
// Dense arrays of results and everything about them (row states, samples, partials, pictures) use these
// numbers.
//
//   const RowSpace rows(problem);           // attn_problem, or a case's Problem
//   for (int64_t row = 0; row < rows.count(); ++row) { const Row at = rows.at(row); ... }
//   o[rows.of(b, h, i) * dim_v + d]
#pragma once

#include <cstdint>

namespace attnfuzz {

struct Row {
  int64_t b, h, i;
};

class RowSpace {
 public:
  template <class Problem>
  explicit RowSpace(const Problem& p) : RowSpace(p.batch, p.heads_q, p.seq_q) {}
  RowSpace(int64_t batch, int64_t heads, int64_t queries) : batch_(batch), heads_(heads), queries_(queries) {}

  int64_t count() const { return batch_ * heads_ * queries_; }
  int64_t heads() const { return heads_; }
  int64_t queries() const { return queries_; }
  int64_t of(int64_t b, int64_t h, int64_t i) const { return (b * heads_ + h) * queries_ + i; }
  int64_t of(const Row& at) const { return of(at.b, at.h, at.i); }
  // 0 <= row < count().
  Row at(int64_t row) const { return {row / queries_ / heads_, row / queries_ % heads_, row % queries_}; }

 private:
  int64_t batch_, heads_, queries_;
};

}  // namespace attnfuzz
