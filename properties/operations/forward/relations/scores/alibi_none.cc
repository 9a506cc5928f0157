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

extern const Property alibi_none = {"alibi_none",
                                    "slopes of 0 change nothing",
                                    adapt_alibi_none,
                                    check_alibi_none,
                                    /*needs_stages=*/false,
                                    /*asks_target=*/false,
                                    /*compares=*/true,
                                    /*operation=*/&operations::forward,
                                    /*ask=*/nullptr,
                                    /*features=*/ATTN_FEATURE_ALIBI,
                                    /*packed=*/true};

}  // namespace attnfuzz::relations
