// A packed batch entry gives the same result as a dense call of that entry alone. This shows the offset of a
// wrong entry, the length of the wrong side, or a diagonal computed from the longest length, even if the
// numbers look plausible.
#include "properties/operations/forward/relations/storage/packed_tools.h"

namespace attnfuzz::operations {
extern const Operation selected;
}

namespace attnfuzz::relations {
namespace {

// The lengths of an entry alone may choose another path or other splits than those of the packed call. Then the
// entry runs once more, with the packed call's number of keys, a key length and the packed call's splits. A
// kernel mostly takes the same path for these, and the bits are compared.
bool is_as_alone(Trial& trial, const Run& base, int64_t b, const Run& alone, std::string_view what) {
  if (base.c.problem.selects() || does_same_work_on_rows(base, alone))
    return entries_agree(trial, base, b, alone, 0, what);
  Case wide = entry_alone_as_wide(base.c, b);
  if (base.plan.num_splits != alone.plan.num_splits) wide.problem.num_splits = base.plan.num_splits;
  const std::string label = std::string(what) + ", among as many keys";
  const Run* run = trial.run_if_taken(wide, label);
  if (trial.done()) return false;
  if (run == nullptr || !does_same_work_on_rows(base, *run))
    return entries_agree(trial, base, b, alone, 0, what);  // says why bits are not compared
  return entries_agree(trial, base, b, *run, 0, label) && entries_are_near(trial, base, b, alone, 0, what);
}

void check_packed_alone(Trial& trial) { compare_entries_alone(trial, entry_alone, is_as_alone); }

}  // namespace

extern const Property packed_alone = {
    .name = "packed_alone",
    .statement = "a packed batch entry gives what it gives alone in a dense call",
    .adapt = pack,
    .check = check_packed_alone,
    .features = ATTN_FEATURE_RAGGED,
    .packed = true,
    .kv8 = true,
    .key_blocks = true,
    .also = &operations::selected};

}  // namespace attnfuzz::relations
