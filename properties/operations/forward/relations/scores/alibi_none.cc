// Slopes of 0 give the same result as no slopes.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_alibi_none(Case& c, const KernelInfo&, std::string*) {
  c.problem.slopes = Slopes{};
  return true;
}

void check_alibi_none(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.problem.slopes.reset();
  if (const Run* run = trial.run(other, "without slopes"))
    all_agree(trial, *base, *run, "slopes of 0 against none");
}

}  // namespace

extern const Property alibi_none = {.name = "alibi_none",
                                    .statement = "slopes of 0 change nothing",
                                    .adapt = adapt_alibi_none,
                                    .check = check_alibi_none,
                                    .features = ATTN_FEATURE_ALIBI,
                                    .packed = true};

}  // namespace attnfuzz::relations
