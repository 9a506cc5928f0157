// Tools for relations of computed scores of blocks, in addition to those of the forward pass. A row is a list:
// (b, g, i).
#pragma once

#include <span>

#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"
#include "reference/block_scores.h"

namespace attnfuzz::operations {
extern const Operation nsa_score;
}

namespace attnfuzz::relations {

inline RowSpace lists_of(const Problem& p) { return {p.batch, p.heads_kv, p.seq_q}; }

inline std::span<const int64_t> list_of(const Run& run, int64_t row) {
  const auto n = static_cast<size_t>(run.reference[TensorId::kChosen].columns);
  return std::span(run.calls[0].integers(TensorId::kChosen)).subspan(static_cast<size_t>(row) * n, n);
}

// The list of row_b in `b` must be admissible by the reference of row_a in `a`. Rows without a bound pass.
inline bool is_admissible(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b,
                          std::string_view what) {
  const auto bounded = [](const Run& run, int64_t row) {
    return run.reference.state[static_cast<size_t>(row)] == RowState::kBounded;
  };
  if (!bounded(a, row_a) || !bounded(b, row_b)) return true;
  const std::string why = objection_to_choice(a.reference, row_a, list_of(b, row_b));
  if (why.empty()) return true;
  const Where where = where_is(TensorId::kChosen, b.c.problem, b.plan, row_b, 0);
  trial.fail(Kind::kRelation, std::string(what) + ": the row of " + name_of(where) + " " + why);
  trial.verdict().where = where;
  return false;
}

}  // namespace attnfuzz::relations
