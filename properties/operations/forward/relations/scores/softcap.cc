// Softcaps are drawn near the size of the scores. A tanh that is right in that range may fail outside it:
// exponentials overflow if scores are far above the cap, and differences cancel if they are far below it. The
// oracle judges each variant.
#include <cstdlib>

#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr int kSoftcapPower = 8;

bool tame(const Fill& fill) {
  const bool extreme = fill.kind == FillKind::kHuge || fill.kind == FillKind::kSubnormal;
  return !extreme && std::abs(fill.exponent) <= 4;
}

bool adapt_softcap(Case& c, const KernelInfo&, std::string*) {
  if (c.problem.softcap == 0) c.problem.softcap = 1;
  if (!tame(c.q)) c.q = Fill{.kind = FillKind::kSmallInt, .seed = c.q.seed};
  if (!tame(c.k)) c.k = Fill{.kind = FillKind::kGaussian, .seed = c.k.seed};
  drop_planted(c, TensorId::kQ);
  return true;
}

void check_softcap(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const struct {
    const char* name;
    int power;
  } variants[] = {{"scores far beyond the softcap", kSoftcapPower},
                  {"scores far below the softcap", -kSoftcapPower}};
  for (const auto& variant : variants) {
    Case other = variant_of(base->c);
    other.q.exponent += variant.power;
    if (!trial.run(other, variant.name)) return;
  }
}

}  // namespace

extern const Property softcap = {.name = "softcap",
                                 .statement = "a softcap holds for scores far beyond it and far below it",
                                 .adapt = adapt_softcap,
                                 .check = check_softcap,
                                 .compares = false};

}  // namespace attnfuzz::relations
