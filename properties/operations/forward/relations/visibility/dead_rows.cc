// Rows that see no key give exactly 0 and -inf, and do not change other rows. The case decides why they see no
// key: a mask, -inf in the bias, or a length of 0.
#include "properties/data/fills.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_dead_rows(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  // Without NaN: a NaN that a kernel does not isolate may reach other rows once rows are dead.
  drop_non_finite(c);
  if (p.mask) {
    p.mask = Mask{};
  } else if (p.bias) {
    p.bias->finite = Pattern{};
    p.bias->broadcast.query = false;
    drop_planted(c, TensorId::kBias);
  } else if (!p.key_lengths) {
    p.mask = Mask{};
  }
  fit_memory(c);
  return true;
}

void check_dead_rows(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  Problem& p = other.problem;
  const Pattern dead = {.kind = PatternKind::kDeadRows,
                        .parameter = 2 + static_cast<int64_t>(choice(other, 1) % 3)};
  if (p.mask) {
    p.mask->visible = dead;
  } else if (p.bias) {
    p.bias->finite = dead;
  } else if (!p.key_lengths->empty()) {
    p.key_lengths->back() = 0;
  }
  const Run* run = trial.run(other, "some rows dead");
  if (!run) return;
  const Problem& before = base->c.problem;
  for (int64_t row = 0; row < run->reference.rows; ++row) {
    const Row at = RowSpace(before).at(row);
    const bool killed =
        p.mask || p.bias ? !visible(dead, at.b, at.h, at.i, 0, p.seq_q, p.seq_k) : at.b == p.batch - 1;
    // The oracle has checked that dead rows give 0 and -inf.
    if (!killed && !agree(trial, *base, row, *run, row, "other rows made dead")) return;
  }
}

}  // namespace

extern const Property dead_rows = {
    .name = "dead_rows",
    .statement = "rows made dead give exactly 0 and -inf, and leave the others as they were",
    .adapt = adapt_dead_rows,
    .check = check_dead_rows,
    .kv8 = true};

}  // namespace attnfuzz::relations
