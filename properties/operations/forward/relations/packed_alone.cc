// A packed batch entry gives the same result as a dense call of that entry alone. This shows the offset of a
// wrong entry, the length of the wrong side, or a diagonal computed from the longest length, even if the
// numbers look plausible.
#include "properties/case/packed.h"
#include "properties/operations/forward/relations/packed_tools.h"

namespace attnfuzz::relations {
namespace {

void check_packed_alone(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  std::vector<int64_t> entries;
  for (int64_t b = 0; b < p.batch; ++b) {
    if (lengths_of(p, b).queries > 0) entries.push_back(b);
  }
  if (entries.empty() || p.heads_q == 0) return;
  // The last entry, where offsets are largest, and another one.
  const int64_t other = entries[choice(base->c, 1) % entries.size()];
  for (const int64_t b : {entries.back(), other}) {
    const std::string label = "batch entry " + std::to_string(b) + " alone";
    const Run* run = trial.run(entry_alone(base->c, b), label);
    if (!run || !entries_agree(trial, *base, b, *run, 0, label) || other == entries.back()) return;
  }
}

}  // namespace

extern const Property packed_alone = {
    .name = "packed_alone",
    .statement = "a packed batch entry gives what it gives alone in a dense call",
    .adapt = pack,
    .check = check_packed_alone,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
