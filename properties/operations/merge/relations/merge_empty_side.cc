// If one side of a merge saw no key, the result is the other side's, bit for bit.
//
// With the weights exp(LSE_s - max LSE), the side with keys has the weight 1 and the other 0. But a right
// kernel may compute a weight that is not exactly 1, and may turn an LSE into powers of two and back. So bits
// are due only where the plan excludes this or where rounding hides it:
//
//   O     of 16 bits: merge_rule is ATTN_MERGE_BY_WEIGHT, and O is rounded to nearest. The quotient w O_s / w is then a
//         few units of 2^-24 from O_s, which is a number of the format, and is rounded to it.
//   O     of fp32, flushed numbers aside: the plan declares merge_order, and the classes of exp and reciprocal. Then w
//         is exp2(0) = 1, and rcp(1) is 1.
//   LSE   the plan declares lse_rule, and the classes of exp and log. Then LSE is the largest LSE and lg2(1) ln 2,
//         which is 0.
//
// An exponential without a declared class, such as a polynomial, may give w = 1 - 2^-24 for 0. An O of fp32 and the LSE
// are then rounded. If neither output must have a side's bits, the case is rejected with the reasons.
#include <cmath>

#include "properties/case/words.h"
#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation merge;
}

namespace attnfuzz::relations {
namespace {

// In these patterns, no query has exactly one side that saw keys. A planted LSE may contradict the pattern.
bool adapt_merge_empty_side(Case& c, const KernelInfo&, std::string*) {
  const bool symmetric = c.sides.kind == PatternKind::kAll || c.sides.kind == PatternKind::kNothing ||
                         c.sides.kind == PatternKind::kDeadRows;
  if (symmetric) c.sides = Pattern{.kind = c.o1.seed % 2 == 0 ? PatternKind::kLastKey : PatternKind::kFirstKey};
  drop_planted(c, TensorId::kLse1);
  drop_planted(c, TensorId::kLse2);
  return true;
}

// exp2(0) is 1 in every declared class, but need not be 1 in an exponential without one.
bool has_exp_class(const attn_plan& plan) { return plan.exp_class != ATTN_EXP_UNKNOWN && plan.exp_error == 0; }

// Why O need not have the bits of the side's O; nullptr: it must.
const char* why_not_o(const Problem& p, const attn_plan& plan) {
  if (plan.merge_rule != ATTN_MERGE_BY_WEIGHT) return "O: merge_rule is not by weight";
  if (plan.merge_format == ATTN_FORMAT_OF_INPUT) return "O: partials are merged in the input's format";
  if (p.dtype != ATTN_F32)
    return plan.conversion == ATTN_CONVERT_NEAREST ? nullptr : "O: the plan does not round to nearest";
  if (plan.merge_order == ATTN_MERGE_ANY) return "O: the plan leaves merge_order open";
  if (!has_exp_class(plan)) return "O: the exponential has no declared class";
  return plan.rcp_class == ATTN_RCP_UNKNOWN ? "O: the plan leaves the class of the reciprocal open" : nullptr;
}

// The same for the LSE.
const char* why_not_lse(const Case& c, const attn_plan& plan) {
  if (!c.want_lse) return "LSE: it is not wanted";
  if (plan.lse_rule == ATTN_LSE_UNKNOWN) return "LSE: the plan leaves lse_rule open";
  if (plan.lse_base != 0) return "LSE: it is not a natural logarithm";
  if (!has_exp_class(plan)) return "LSE: the exponential has no declared class";
  return plan.log_class == ATTN_LOG_UNKNOWN ? "LSE: the plan leaves the class of log open" : nullptr;
}

// Compares a row of an output with that of a side. -0 equals +0.
bool same_as_side(Trial& trial, const Run& run, TensorId output, TensorId side, int64_t row) {
  constexpr double kSmallest = 0x1p-125;  // a smaller number may be flushed
  const Expected& due = run.reference[output];
  const std::vector<float>& got = run[output];
  if (got.empty()) return true;
  const std::vector<double> given = input_row(run.c, side, RowSpace(run.c.problem).at(row), due.columns);
  for (int64_t column = 0; column < due.columns; ++column) {
    const auto at = static_cast<size_t>(row * due.columns + column);
    const double want = given[static_cast<size_t>(column)];
    if (static_cast<Due>(due.rule[at]) != Due::kNumber || std::fabs(want) < kSmallest || got[at] == want)
      continue;
    Where where = where_is(output, run.c.problem, run.plan, row, column);
    where.got = got[at], where.expected = want, where.bound = 0;
    where.bad = where.of = 1;
    trial.fail(Kind::kRelation, std::string("the other side saw no key, and the plan leaves no rounding: ") +
                                    name_of(where) + " is " + digits(got[at]) + ", must be " + name_of(side) +
                                    ", " + digits(want));
    trial.verdict().where = where;
    return false;
  }
  return true;
}

void check_merge_empty_side(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const char *no_o = why_not_o(base->c.problem, base->plan), *no_lse = why_not_lse(base->c, base->plan);
  if (no_o && no_lse) return trial.reject(cat("no output has the bits of a side: ", no_o, "; ", no_lse));
  for (const int64_t row : some_rows(base->c, base->plan.tile_q, 128)) {
    const Row at = RowSpace(base->c.problem).at(row);
    const bool first = saw_keys(base->c, TensorId::kO1, at.b, at.h, at.i);
    if (first == saw_keys(base->c, TensorId::kO2, at.b, at.h, at.i)) continue;
    if (base->reference.state[static_cast<size_t>(row)] != RowState::kBounded) continue;
    trial.note_bits(no_o ? no_o : "");
    if (base->c.want_lse) trial.note_bits(no_lse ? no_lse : "");
    if (!no_o && !same_as_side(trial, *base, TensorId::kO, first ? TensorId::kO1 : TensorId::kO2, row)) return;
    if (!no_lse &&
        !same_as_side(trial, *base, TensorId::kLse, first ? TensorId::kLse1 : TensorId::kLse2, row))
      return;
  }
}

}  // namespace

extern const Property merge_empty_side = {
    .name = "merge_empty_side",
    .statement =
        "if one side saw no key, O and LSE are the other side's, bit for bit where the plan leaves no rounding",
    .adapt = adapt_merge_empty_side,
    .check = check_merge_empty_side,
    .compares = false,
    .operation = &operations::merge};

}  // namespace attnfuzz::relations
