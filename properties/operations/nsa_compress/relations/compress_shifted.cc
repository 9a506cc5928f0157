// If all keys move forward by one step, blocks move by one: block i has the bits that block i + 1 had.
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
  for (int64_t row = 0; row < rows.count(); ++row) {
    const Row at = rows.at(row);
    const bool there = (at.i + 1) * p.key_step + p.key_offset < key_length(p, at.b) && at.i + 1 < p.seq_q;
    if (there && !agree(trial, *base, row + 1, *run, row, kWhat)) return;
  }
}

}  // namespace

extern const Property compress_shifted = {"compress_shifted",
                                          "keys one step earlier give blocks one place earlier, to the last bit",
                                          any_case,
                                          check_compress_shifted,
                                          /*needs_stages=*/false,
                                          /*asks_target=*/false,
                                          /*compares=*/true,
                                          /*operation=*/&operations::nsa_compress};

}  // namespace attnfuzz::relations
