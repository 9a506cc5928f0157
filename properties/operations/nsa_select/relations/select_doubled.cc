// Scores times a power of two keep their order and their ties: the same blocks are chosen.
#include <algorithm>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_select;
}

namespace attnfuzz::relations {
namespace {

// Values that stay far from the ends of fp32.
bool adapt_select_doubled(Case& c, const KernelInfo&, std::string*) {
  if (c.scores.kind == FillKind::kSubnormal || c.scores.kind == FillKind::kHuge)
    c.scores = Fill{.kind = FillKind::kSmallInt, .seed = c.scores.seed};
  c.scores.exponent = std::clamp(c.scores.exponent, -40, 40);
  // Doubling the scores does not double planted numbers, so these go. Infinities stay the same, and NaN stands
  // only at blocks that the query cannot choose.
  std::erase_if(c.planted, [](const Planted& x) { return (x.bits & 0x7f800000) != 0x7f800000; });
  return true;
}

void check_select_doubled(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.scores.exponent += 1;
  if (const Run* run = trial.run(other, "scores times 2")) trial.all_bits(*base, *run, "scores times 2");
}

}  // namespace

extern const Property select_doubled = {.name = "select_doubled",
                                        .statement = "scores times 2^k choose the same blocks",
                                        .adapt = adapt_select_doubled,
                                        .check = check_select_doubled,
                                        .compares = false,
                                        .operation = &operations::nsa_select,
                                        .packed = true};

}  // namespace attnfuzz::relations
