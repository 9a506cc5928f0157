// Decode equals prefill: a query alone, with as many positions as it may see, has the scores that it has
// among other queries, and a list that is right for these scores. Kernels often have one path for each, and the paths
// disagree about the query's own incomplete block.
#include <algorithm>
#include <vector>

#include "properties/operations/nsa_score/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_score_decode(Case& c, const KernelInfo&, std::string*) {
  c.problem.causal = true;
  return true;
}

// Query i of each batch entry alone. If queries are packed, they stay so: an entry without a query i has none.
Case one_query(const Case& base, int64_t i) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < p.batch; ++b) {
    const Lengths of = lengths_of(base.problem, b);
    lengths.push_back(std::clamp<int64_t>(diagonal(base.problem, of, i) + 1, 0, of.positions));
  }
  c.remap.seq_q = p.seq_q, c.remap.seq_k = p.seq_k;
  c.remap.query.add = i;
  if (p.packed_q) {
    Packing alone = {.slack = p.packed_q->slack};
    for (int64_t b = 0; b < p.batch; ++b) alone.lengths.push_back(i < lengths_of(base.problem, b).queries);
    p.packed_q = alone;
  }
  p.seq_q = 1;
  p.align = ATTN_BOTTOM_RIGHT;
  p.key_lengths = lengths;
  fit_memory(c);
  return c;
}

void check_score_decode(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base || base->c.problem.seq_q == 0) return;
  const Problem& p = base->c.problem;
  std::vector<int64_t> queries;  // of the entries that have any
  for (int64_t b = 0; b < p.batch; ++b) {
    if (lengths_of(p, b).queries > 0) queries.push_back(lengths_of(p, b).queries);
  }
  if (queries.empty()) return;
  const int64_t count = queries[choice(base->c, 3) % queries.size()];
  const auto any = static_cast<int64_t>(choice(base->c, 1) % static_cast<uint64_t>(count));
  const int64_t some[] = {count - 1, any, any, any}, i = some[choice(base->c, 2) % 4];
  const std::string label = "query " + std::to_string(i) + " alone";
  const Run* run = trial.run_if_taken(one_query(base->c, i), label);
  if (!run) return;
  for (int64_t b = 0; b < p.batch; ++b) {
    if (i >= lengths_of(p, b).queries) continue;
    for (int64_t g = 0; g < p.heads_kv; ++g) {
      const int64_t row = lists_of(p).of(b, g, i), there = lists_of(run->c.problem).of(b, g, 0);
      if (!trial.same_within(*base, row, *run, there, label)) return;
      if (!is_admissible(trial, *base, row, *run, there, label)) return;
    }
  }
}

}  // namespace

extern const Property score_decode = {
    .name = "score_decode",
    .statement = "a query alone has the scores and the choice that it has among others",
    .adapt = adapt_score_decode,
    .check = check_score_decode,
    .operation = &operations::nsa_score,
    .packed = true};

}  // namespace attnfuzz::relations
