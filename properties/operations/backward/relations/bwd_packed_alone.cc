// A packed batch entry gives the gradients that a dense call of that entry alone gives: dQ of its queries, dK
// and dV of its keys.
#include "properties/operations/backward/relations/tools.h"
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::relations {
namespace {

// dbias and dsink are sums over entries, and a bias is as wide as the longest entry.
bool adapt_bwd_packed_alone(Case& c, const KernelInfo& kernel, std::string* why) {
  c.problem.features &= ~ATTN_FEATURE_DBIAS;
  tidy(c);
  return pack(c, kernel, why);
}

// Compares dK and dV of entry b with those of the entry alone.
bool keys_agree(Trial& trial, const Run& base, int64_t b, const Run& alone, const std::string& what) {
  const Problem &p = base.c.problem, &of_one = alone.c.problem;
  const bool exact = same_work_on_rows(trial, base, alone);
  for (const TensorId t : {TensorId::kDk, TensorId::kDv}) {
    const Expected &due = base.reference[t], &other = alone.reference[t];
    for (int64_t h = 0; h < p.heads_kv; ++h) {
      for (int64_t n = 0; n < of_one.seq_k * due.columns; ++n) {
        const auto x = static_cast<size_t>((b * p.heads_kv + h) * p.seq_k * due.columns + n);
        const auto y = static_cast<size_t>(h * of_one.seq_k * due.columns + n);
        if (due.rule[x] != 0 || other.rule[y] != 0) continue;
        const float packed = base[t][x], dense = alone[t][y];
        if (packed == dense || (!exact && std::abs(double{packed} - dense) <= due.bound[x] + other.bound[y]))
          continue;
        const auto at = static_cast<int64_t>(x);
        const std::string name = name_of(where_is(t, p, base.plan, at / due.columns, at % due.columns));
        trial.fail(Kind::kRelation,
                   what + ": " + name + " is " + digits(packed) + " packed and " + digits(dense) + " alone");
        return false;
      }
    }
  }
  return true;
}

void check_bwd_packed_alone(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  if (p.batch == 0 || p.heads_q == 0) return;
  // The last entry, where offsets are largest, and another one.
  const auto other = static_cast<int64_t>(choice(base->c, 1) % static_cast<uint64_t>(p.batch));
  for (const int64_t b : {p.batch - 1, other}) {
    const std::string label = "batch entry " + std::to_string(b) + " alone";
    const Run* run = trial.run(entry_alone(base->c, b), label);
    if (!run || !entries_agree(trial, *base, b, *run, 0, label) || !keys_agree(trial, *base, b, *run, label))
      return;
    if (other == p.batch - 1) return;
  }
}

}  // namespace

extern const Property bwd_packed_alone = {
    .name = "bwd_packed_alone",
    .statement = "a packed batch entry has the gradients that it has alone",
    .adapt = adapt_bwd_packed_alone,
    .check = check_bwd_packed_alone,
    .compares = true,
    .operation = &operations::backward,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true,
    .key_blocks = true,
    .also = &operations::selected_backward};

}  // namespace attnfuzz::relations
