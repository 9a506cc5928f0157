// Compares the runs of a trial: rows may differ by the sum of their bounds, or not at all.
#include <cmath>
#include <span>

#include "properties/judge/judge.h"
#include "properties/judge/same_work.h"
#include "properties/judge/trial.h"

namespace attnfuzz {

// `bound` 0: the bits must be equal.
bool Trial::differ(TensorId tensor, const Run& a, int64_t row, int64_t column, double x, double y, double bound,
                   std::string_view what) {
  Where where = where_is(tensor, a.c.problem, a.plan, row, column);
  where.expected = x;
  where.got = y;
  where.bound = bound;
  where.bad = where.of = 1;
  fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " is " + digits(x) + " in one and " +
                            digits(y) + " in the other, " +
                            (bound > 0 ? "which may differ by " + digits(bound) + " at most"
                                       : std::string("must be bit-identical")));
  verdict_.where = where;
  return false;
}

bool Trial::same_within(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what,
                        double scale, double log_shift) {
  if (done()) return false;
  const Reference &ra = a.reference, &rb = b.reference;
  const auto compared = [](RowState s) { return s == RowState::kBounded || s == RowState::kDead; };
  if (!compared(ra.state[row_a]) || !compared(rb.state[row_b])) return true;
  // Two dead rows agree whatever the shift is; it may be -inf or NaN there.
  if (ra.state[row_a] == RowState::kDead && rb.state[row_b] == RowState::kDead) return true;
  for (const Expected& ea : ra.outputs) {
    const std::vector<float>&got_a = a[ea.tensor], &got_b = b[ea.tensor];
    if (got_a.empty() || got_b.empty() || !of_queries(spec_of(ea.tensor))) continue;
    const Expected& eb = rb[ea.tensor];
    for (int64_t column = 0; column < ea.columns; ++column) {
      const int64_t ia = row_a * ea.columns + column, ib = row_b * ea.columns + column;
      if (ea.rule[ia] != 0 || eb.rule[ib] != 0) continue;  // each was judged by its own oracle
      const double x = got_a[ia], y = ea.logarithm ? got_b[ib] - log_shift / ea.unit : got_b[ib] / scale;
      const double bound = ea.allowance(ia) + eb.allowance(ib) / (ea.logarithm ? 1 : std::fabs(scale));
      if (x == y || std::fabs(x - y) <= bound) continue;
      // The overflow rule has judged an infinity already.
      if (ea.overflows() && !(std::isfinite(x) && std::isfinite(y))) continue;
      return differ(ea.tensor, a, row_a, column, x, y, bound, what);
    }
  }
  return true;
}

bool Trial::promise_bits(const attn_plan& a, const attn_plan& b) { return note_bits(other_work(a, b)); }

bool Trial::note_bits(std::string why_not) {
  if (why_not.empty()) return verdict_.by_bits = true;
  verdict_.by_bounds = std::move(why_not);
  return false;
}

bool Trial::same_bits(const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what) {
  if (done()) return false;
  for (const Expected& expected : a.reference.outputs) {
    const int64_t n = expected.columns;
    const std::span<const float> x = a[expected.tensor], y = b[expected.tensor];
    if (x.empty() || y.empty() || !of_queries(spec_of(expected.tensor))) continue;
    const auto first = first_difference(x.subspan(row_a * n, n), y.subspan(row_b * n, n));
    if (!first) continue;
    return differ(expected.tensor, a, row_a, *first, x[row_a * n + *first], y[row_b * n + *first], 0, what);
  }
  return true;
}

bool Trial::all_within(const Run& a, const Run& b, std::string_view what) {
  for (int64_t row = 0; row < a.reference.rows; ++row) {
    if (!same_within(a, row, b, row, what)) return false;
  }
  for (const Expected& expected : a.reference.outputs) {
    if (!of_queries(spec_of(expected.tensor)) && !same_elements(expected.tensor, a, b, what)) return false;
  }
  return !done();
}

bool Trial::same_elements(TensorId tensor, const Run& a, const Run& b, std::string_view what, double scale) {
  if (done()) return false;
  const Expected &ea = a.reference[tensor], &eb = b.reference[tensor];
  const std::vector<float>&got_a = a[tensor], &got_b = b[tensor];
  for (size_t at = 0; at < std::min(got_a.size(), got_b.size()); ++at) {
    if (ea.rule[at] != 0 || eb.rule[at] != 0) continue;  // each was judged by its own oracle
    const auto n = static_cast<int64_t>(at);
    const double x = got_a[at], y = got_b[at] / scale;
    const double bound = ea.allowance(n) + eb.allowance(n) / std::fabs(scale);
    if (x == y || std::fabs(x - y) <= bound) continue;
    if (ea.overflows() && !(std::isfinite(x) && std::isfinite(y))) continue;
    return differ(tensor, a, n / ea.columns, n % ea.columns, x, y, bound, what);
  }
  return true;
}

bool Trial::all_bits(const Run& a, const Run& b, std::string_view what) {
  const std::string message = std::string(what) + ": must be bit-identical";
  return judge_same(a.calls[0], b.calls[0], a.c.problem, a.plan, Kind::kRelation, message, verdict_);
}

}  // namespace attnfuzz
