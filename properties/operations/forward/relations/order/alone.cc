// One batch entry, or one head of an entry, gives the same result alone as together with the
// others. This shows a wrong pointer of an entry, a wrong offset of a head, or the length of another entry,
// even if the numbers look plausible.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_alone(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.batch != 1 || p.heads_q != 1) return true;
  p.batch = 2;
  if (p.key_lengths) p.key_lengths->push_back(p.seq_k);
  fit_memory(c);
  return true;
}

Case only(const Case& base, int64_t b, int64_t h) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  const int64_t group = p.heads_q / p.heads_kv;
  // Set even if b is 0, because planted values of the other entries must be dropped.
  c.remap.seq_q = p.seq_q;
  c.remap.seq_k = p.seq_k;
  c.remap.batch.add = b;
  c.remap.head_q.add = h;
  c.remap.head_kv.add = h / group;
  if (p.key_lengths) p.key_lengths = std::vector<int64_t>{(*p.key_lengths)[b]};
  p.batch = p.heads_q = p.heads_kv = 1;
  fit_memory(c);
  return c;
}

void check_alone(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  const int64_t entries = p.batch * p.heads_q;
  if (entries == 0) return;
  // The last entry, where offsets are largest, and another one.
  const int64_t last = entries - 1,
                other = static_cast<int64_t>(choice(base->c, 1) % static_cast<uint64_t>(entries));
  for (const int64_t entry : {last, other}) {
    const int64_t b = entry / p.heads_q, h = entry % p.heads_q;
    const std::string label = "batch entry " + std::to_string(b) + ", head " + std::to_string(h) + " alone";
    const Run* run = trial.run(only(base->c, b, h), label);
    if (!run) return;
    for (int64_t i = 0; i < p.seq_q; ++i) {
      if (!agree(trial, *base, RowSpace(p).of(b, h, i), *run, i, label)) return;
    }
    if (other == last) return;
  }
}

}  // namespace

extern const Property alone = {.name = "alone",
                               .statement = "one batch entry and one head computed alone give the same rows",
                               .adapt = adapt_alone,
                               .check = check_alone,
                               .kv8 = true,
                               .key_blocks = true};

}  // namespace attnfuzz::relations
