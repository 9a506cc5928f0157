// If all keys move forward by one step, blocks move by one: block i is what block i + 1 was. If a step is a
// number of whole tiles of keys, the keys of a block keep their places in their tiles, and every bit is the
// same. Otherwise a kernel that adds up each tile before it adds the tiles may round differently.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_compress;
}

namespace attnfuzz::relations {
namespace {

void check_compress_shifted(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  Case other = variant_of(base->c);
  other.remap.key.add += p.key_step;
  constexpr const char* kWhat = "keys one step earlier";
  const Run* run = trial.run(other, kWhat);
  if (!run) return;
  const RowSpace rows(p);
  const bool in_place = p.key_step % std::max<int64_t>(base->plan.tile_k, 1) == 0;
  for (int64_t row = 0; row < rows.count(); ++row) {
    const Row at = rows.at(row);
    const bool there =
        (at.i + 1) * p.key_step + p.key_offset < key_length(p, at.b) && at.i + 1 < lengths_of(p, at.b).queries;
    if (!there) continue;
    const bool right = in_place ? agree(trial, *base, row + 1, *run, row, kWhat)
                                : trial.same_within(*base, row + 1, *run, row, kWhat);
    if (!right) return;
  }
}

}  // namespace

extern const Property compress_shifted = {
    .name = "compress_shifted",
    .statement =
        "keys one step earlier give blocks one place earlier, to the last bit if "
        "steps are whole tiles",
    .adapt = any_case,
    .check = check_compress_shifted,
    .operation = &operations::nsa_compress,
    .packed = true};

}  // namespace attnfuzz::relations
