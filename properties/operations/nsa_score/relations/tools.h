// Tools for relations of computed scores of blocks, in addition to those of the forward pass. A row is a list:
// (b, g, i).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"
#include "reference/nsa/block_scores.h"

namespace attnfuzz::operations {
extern const Operation nsa_score;
}

namespace attnfuzz::relations {

inline RowSpace lists_of(const Problem& p) { return {p.batch, p.heads_kv, p.seq_q}; }

inline std::span<const int64_t> list_of(const Run& run, int64_t row) {
  const auto n = static_cast<size_t>(run.reference[TensorId::kChosen].columns);
  return std::span(run.calls[0].integers(TensorId::kChosen)).subspan(static_cast<size_t>(row) * n, n);
}

// The list of row_b in `b` must be admissible by the reference of row_a in `a`, within both bounds, because the two
// plans may round differently. Scores in `a` are `scale` times those in `b`. Rows without a bound pass.
inline bool is_admissible(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b,
                          std::string_view what, double scale = 1) {
  const auto bounded = [](const Run& run, int64_t row) {
    return run.reference.state[static_cast<size_t>(row)] == RowState::kBounded;
  };
  if (!bounded(a, row_a) || !bounded(b, row_b)) return true;
  const Expected& scores = b.reference[TensorId::kBlockScores];
  const auto columns = static_cast<size_t>(scores.columns), first = static_cast<size_t>(row_b) * columns;
  std::vector<double> slack(scores.bound.begin() + static_cast<ptrdiff_t>(first),
                            scores.bound.begin() + static_cast<ptrdiff_t>(first + columns));
  for (double& each : slack) each *= scale;
  const std::string why = objection_to_choice(a.reference, row_a, list_of(b, row_b), slack);
  if (why.empty()) return true;
  const Where where = where_is(TensorId::kChosen, b.c.problem, b.plan, row_b, 0);
  trial.fail(Kind::kRelation, std::string(what) + ": the row of " + name_of(where) + " " + why);
  trial.verdict().where = where;
  return false;
}

// The scores of two rows must have equal bits. Scores of blocks that are no candidates may be anything.
inline bool same_score_bits(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b,
                            std::string_view what) {
  const std::vector<float>&x = a[TensorId::kBlockScores], &y = b[TensorId::kBlockScores];
  if (x.empty() || y.empty()) return true;
  const Expected &due_a = a.reference[TensorId::kBlockScores], &due_b = b.reference[TensorId::kBlockScores];
  for (int64_t j = 0; j < due_a.columns; ++j) {
    const auto at_a = static_cast<size_t>(row_a * due_a.columns + j),
               at_b = static_cast<size_t>(row_b * due_a.columns + j);
    if (due_a.rule[at_a] != 0 || due_b.rule[at_b] != 0) continue;
    if (!first_difference(std::span(&x[at_a], 1), std::span(&y[at_b], 1))) continue;
    const Where where = where_is(TensorId::kBlockScores, a.c.problem, a.plan, row_a, j);
    trial.fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " was " + digits(x[at_a]) + ", is " +
                                    digits(y[at_b]) + ", must be bit-identical");
    trial.verdict().where = where;
    return false;
  }
  return true;
}

// Two rows must agree: their scores within both bounds, and the list of one with the scores of the other. `bits`:
// scores and lists must be the same.
inline bool same_choice(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b, bool bits,
                        std::string_view what) {
  if (trial.done()) return false;
  if (bits ? !same_score_bits(trial, a, row_a, b, row_b, what) : !trial.same_within(a, row_a, b, row_b, what))
    return false;
  if (!is_admissible(trial, a, row_a, b, row_b, what)) return false;
  if (!bits || std::ranges::equal(list_of(a, row_a), list_of(b, row_b))) return true;
  const Where where = where_is(TensorId::kChosen, a.c.problem, a.plan, row_a, 0);
  trial.fail(Kind::kRelation, std::string(what) + ": the row of " + name_of(where) + " must be the same list");
  trial.verdict().where = where;
  return false;
}

}  // namespace attnfuzz::relations
