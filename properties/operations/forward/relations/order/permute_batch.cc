// Batch entries are independent: permuting them permutes the results.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_permute_batch(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.batch > 1) return true;
  if (p.key_lengths) p.key_lengths->resize(2, p.seq_k);
  p.batch = 2;
  fit_memory(c);
  return true;
}

void check_permute_batch(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  Case other = variant_of(base->c);
  other.remap.batch = Axis{.multiply = -1, .add = p.batch - 1, .modulus = p.batch};
  if (p.key_lengths) std::reverse(other.problem.key_lengths->begin(), other.problem.key_lengths->end());
  const Run* run = trial.run(other, "batch reversed");
  if (!run) return;
  const int64_t rows = p.heads_q * p.seq_q;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t row = 0; row < rows; ++row) {
      if (!agree(trial, *base, b * rows + row, *run, (p.batch - 1 - b) * rows + row, "batch entries reversed"))
        return;
    }
  }
}

}  // namespace

extern const Property permute_batch = {
    .name = "permute_batch",
    .statement = "permuting batch entries permutes the results and changes nothing else",
    .adapt = adapt_permute_batch,
    .check = check_permute_batch,
    .kv8 = true};

}  // namespace attnfuzz::relations
