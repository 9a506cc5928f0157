// Blocks of one key, one key apart, are the keys. The same problem without blocks must give the same result.
#include "properties/case/places/key_blocks.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation backward;
}

namespace attnfuzz::relations {
namespace {

bool adapt_key_blocks_none(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (p.key_step != 1 || p.key_offset != 0) give_up_key_blocks(c);
  p.slopes.reset();
  p.key_step = 1;
  fit_memory(c);
  return true;
}

void check_key_blocks_none(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.problem.key_step = 0;
  if (const Run* run = trial.run(other, "without blocks"))
    all_agree(trial, *base, *run, "blocks of one key each");
}

}  // namespace

extern const Property key_blocks_none = {
    .name = "key_blocks_none",
    .statement = "keys that stand for blocks of one key each stand for themselves",
    .adapt = adapt_key_blocks_none,
    .check = check_key_blocks_none,
    .features = ATTN_FEATURE_KEY_STEP,
    .packed = true,
    .kv8 = true,
    .key_blocks = true,
    .also = &operations::backward};

}  // namespace attnfuzz::relations
