// A query does not affect keys that it does not see, nor dQ of other queries. Some queries get other values in
// Q and dO, and so another O and LSE. dQ of all other queries, and dK and dV of the keys that no changed query
// sees, must keep their bits if both plans promise that, and otherwise stay within their bounds.
#include <algorithm>

#include "properties/operations/backward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_bwd_future(Case& c, const KernelInfo&, std::string*) {
  ask_for_the_usual(c);
  drop_non_finite(c);  // if a kernel does not isolate hidden values, infinity times 0 is NaN
  c.once.q = {};
  c.dout_repeated = {};
  return true;
}

// The queries that change: two adjacent ones, at a tile's border, at an end, or anywhere.
std::vector<int64_t> changed_queries(const Case& c, int64_t tile) {
  const int64_t n = c.problem.seq_q;
  const auto any = static_cast<int64_t>(choice(c, 1) % static_cast<uint64_t>(n));
  const int64_t starts[] = {0, n - 1, any / tile * tile - 1, any};
  const int64_t first = std::clamp<int64_t>(starts[choice(c, 2) % 4], 0, n - 1);
  std::vector<int64_t> queries = {first};
  if (first + 1 < n) queries.push_back(first + 1);
  return queries;
}

Case with_others(const Case& base, int64_t b, const std::vector<int64_t>& queries) {
  Case c = variant_of(base);
  const Problem& p = c.problem;
  for (int64_t h = 0; h < std::min<int64_t>(p.heads_q, 64); ++h) {
    for (const int64_t i : queries) {
      c.planted.push_back({TensorId::kQ, b, h, i, p.dim_qk - 1, bits_of(p.dtype, 1.5f)});
      c.planted.push_back({TensorId::kDout, b, h, i, 0, bits_of(p.dtype, -2.5f)});
    }
  }
  tidy(c);  // of several values planted in one place, keeps the last
  return c;
}

bool changed(const std::vector<int64_t>& queries, int64_t i) {
  return std::ranges::find(queries, i) != queries.end();
}

// True if the variant must not change an element at `where`.
bool kept(const Case& c, int64_t b, const std::vector<int64_t>& queries, const Where& where) {
  if (where.b != b) return true;
  if (of_queries(spec_of(where.tensor))) return !changed(queries, where.q);
  const Problem& p = c.problem;
  const int64_t group = p.heads_q / p.heads_kv;
  for (int64_t h = where.h * group; h < (where.h + 1) * group; ++h) {
    for (const int64_t i : queries) {
      if (sees(c, b, h, i, where.q)) return false;
    }
  }
  return true;
}

void check_bwd_future(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  if (p.batch < 1 || p.heads_q < 1 || p.seq_q < 1) return;
  const auto b = static_cast<int64_t>(choice(base->c, 3) % static_cast<uint64_t>(p.batch));
  const std::vector<int64_t> queries = changed_queries(base->c, std::max<int64_t>(base->plan.tile_q, 1));
  constexpr const char* kWhat = "other values in queries that do not see the key";
  const Run* run = trial.run(with_others(base->c, b, queries), kWhat);
  if (!run) return;
  const bool exact = trial.promise_bits(base->plan, run->plan);
  for (const Expected& due : base->reference.outputs) {
    const Expected& other = run->reference[due.tensor];
    const std::vector<float>&x = (*base)[due.tensor], &y = (*run)[due.tensor];
    for (int64_t row = 0; due.columns > 0 && row < static_cast<int64_t>(x.size()) / due.columns; ++row) {
      const Where where = where_is(due.tensor, p, base->plan, row, 0);
      if (!kept(base->c, b, queries, where)) continue;
      for (int64_t d = 0; d < due.columns; ++d) {
        const auto n = static_cast<size_t>(row * due.columns + d);
        if (due.rule[n] != 0 || other.rule[n] != 0) continue;
        const double apart = std::abs(double{x[n]} - y[n]), bound = due.bound[n] + other.bound[n];
        if (x[n] == y[n] || (!exact && apart <= bound)) continue;
        Where at = where;
        at.d = d;
        trial.fail(Kind::kRelation, std::string(kWhat) + ": " + name_of(at) + " is " + digits(x[n]) +
                                        " in one and " + digits(y[n]) + " in the other");
        return;
      }
    }
  }
}

}  // namespace

extern const Property bwd_future = {
    .name = "bwd_future",
    .statement = "queries that do not see a key do not matter to its gradients, to the last bit",
    .adapt = adapt_bwd_future,
    .check = check_bwd_future,
    .operation = &operations::backward,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
