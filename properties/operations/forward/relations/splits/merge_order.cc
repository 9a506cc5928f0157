// Merging partial results is commutative and associative. The reduction is run on the oracle's partials, on the
// same partials in another order, and with two of them merged beforehand.
#include <algorithm>
#include <cmath>

#include "properties/judge/judge.h"
#include "properties/operations/forward/relations/splits/stage_tools.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

// The splits that hold a key for a row. Only these change places, because a kernel may know in which splits
// a row has no key.
std::vector<int64_t> filled(Partials& partials, int64_t row) {
  std::vector<int64_t> splits;
  for (int64_t s = 0; s < partials.splits; ++s) {
    if (std::isfinite(partials.lse_at(s, row))) splits.push_back(s);
  }
  return splits;
}

Partials reversed(Partials from) {
  Partials to = from;
  for (int64_t row = 0; row < from.rows; ++row) {
    const std::vector<int64_t> splits = filled(from, row);
    for (size_t n = 0; n < splits.size(); ++n) {
      const int64_t there = splits[splits.size() - 1 - n];
      std::copy_n(from.o_at(splits[n], row), from.dim_v, to.o_at(there, row));
      to.lse_at(there, row) = from.lse_at(splits[n], row);
    }
  }
  return to;
}

Partials first_two_merged(Partials partials) {
  for (int64_t row = 0; row < partials.rows; ++row) {
    const std::vector<int64_t> splits = filled(partials, row);
    if (splits.size() < 2) continue;
    float &a = partials.lse_at(splits[0], row), &b = partials.lse_at(splits[1], row);
    const double largest = std::max(a, b), wa = std::exp(a - largest), wb = std::exp(b - largest);
    float *oa = partials.o_at(splits[0], row), *ob = partials.o_at(splits[1], row);
    for (int64_t d = 0; d < partials.dim_v; ++d) {
      oa[d] = static_cast<float>((wa * oa[d] + wb * ob[d]) / (wa + wb));
      ob[d] = 0;
    }
    a = static_cast<float>(largest + std::log(wa + wb));
    b = -std::numeric_limits<float>::infinity();
  }
  return partials;
}

bool same_result(Trial& trial, const Execution& prepared, const Reduced& a, const Reduced& b,
                 const char* what) {
  const Reference &ra = a.reference, &rb = b.reference;
  for (int64_t row = 0; row < ra.rows; ++row) {
    if (ra.state[row] != RowState::kBounded || rb.state[row] != RowState::kBounded) continue;
    for (const Expected& ea : ra.outputs) {
      const Expected& eb = rb[ea.tensor];
      if (a.outputs[ea.tensor].empty()) continue;
      for (int64_t d = 0; d < ea.columns; ++d) {
        const int64_t at = row * ea.columns + d;
        if (ea.rule[at] != 0 || eb.rule[at] != 0) continue;
        // The references take into account that merged partials are rounded to fp32.
        const double x = a.outputs[ea.tensor][at], y = b.outputs[ea.tensor][at];
        const double bound = ea.bound[at] + eb.bound[at] + std::fabs(ea.value[at] - eb.value[at]);
        if (std::fabs(x - y) <= bound) continue;
        if (ea.overflows() && !(std::isfinite(x) && std::isfinite(y))) continue;
        Where where = where_is(ea.tensor, prepared.c.problem, prepared.plan, row, d);
        where.expected = x;
        where.got = y;
        where.bound = bound;
        trial.fail(Kind::kRelation, std::string(what) + ": " + name_of(where) + " is " + digits(x) + " and " +
                                        digits(y) + ", which may differ by " + digits(bound));
        trial.verdict().where = where;
        return false;
      }
    }
  }
  return true;
}

void check_merge_order(Trial& trial) {
  if (!trial.run(trial.base())) return;
  Execution* prepared = trial.prepare(variant_of(trial.base()), "reduction");
  if (!prepared) return;
  const std::optional<attn_partials> where = partials_of(trial, *prepared);
  if (!where) return;
  const Partials partials = oracle_partials(*prepared, trial.calibration(), where->num_splits);
  Reduced plain, other;
  if (!reduce_partials(trial, *prepared, *where, partials, "fed with the oracle's partials", &plain)) return;
  const Partials backwards = reversed(partials);
  if (!reduce_partials(trial, *prepared, *where, backwards, "splits in reverse order", &other)) return;
  if (!same_result(trial, *prepared, plain, other, "splits in reverse order")) return;
  const Partials merged = first_two_merged(partials);
  if (!reduce_partials(trial, *prepared, *where, merged, "two splits merged beforehand", &other)) return;
  same_result(trial, *prepared, plain, other, "two splits merged beforehand");
}

// A single split merges nothing.
bool adapt_merge_order(Case& c, const KernelInfo& kernel, std::string* why) {
  if (!staged_case(c, kernel, why)) return false;
  if (c.problem.num_splits < 2) c.problem.num_splits = 4;
  return true;
}

}  // namespace

extern const Property merge_order = {
    .name = "merge_order",
    .statement = "the reduction does not depend on the order or grouping of splits",
    .adapt = adapt_merge_order,
    .check = check_merge_order,
    .needs_stages = true,
    .asks_target = true,
    .kv8 = true};

}  // namespace attnfuzz::relations
