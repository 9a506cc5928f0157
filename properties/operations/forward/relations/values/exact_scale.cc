// If Q is multiplied by 2^k and the scale by 2^-k, every scaled score has the same bits, unless a number
// underflows or overflows.
#include <cmath>

#include "properties/operations/forward/relations/tools.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::relations {
namespace {

constexpr int kExactScalePower = 3;

bool adapt_exact_scale(Case& c, const KernelInfo&, std::string*) {
  drop_planted(c, TensorId::kQ);
  // Keeps Q and products away from the ends of fp32.
  std::erase_if(c.planted, [&](const Planted& x) {
    const double size = std::fabs(decode(c.problem.dtype, &x.bits, 0));
    return x.tensor == TensorId::kK && size != 0 && (size < 0x1p-40 || size > 0x1p40);
  });
  const auto tame = [](Fill& fill, FillKind instead) {
    const bool extreme = fill.kind == FillKind::kHuge || fill.kind == FillKind::kSubnormal;
    if (extreme || fill.exponent > 16 || fill.exponent < -16) fill = Fill{.kind = instead, .seed = fill.seed};
  };
  tame(c.q, FillKind::kSmallInt);
  tame(c.k, FillKind::kGaussian);
  if (!scales_exactly(c, TensorId::kQ, kExactScalePower))
    c.q = Fill{.kind = FillKind::kSmallInt, .seed = c.q.seed};
  float& scale = c.problem.scale;
  if (scale != 0 && (std::fabs(scale) < 0x1p-60f || std::fabs(scale) > 0x1p60f)) scale = 0.125f;
  return true;
}

void check_exact_scale(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  other.q.exponent += kExactScalePower;
  other.problem.scale = std::ldexp(other.problem.scale, -kExactScalePower);
  if (const Run* run = trial.run(other, "Q * 8, scale / 8"))
    all_agree(trial, *base, *run, "Q * 8 with scale / 8");
}

}  // namespace

extern const Property exact_scale = {"exact_scale", "Q * 2^k with scale * 2^-k changes no bit",
                                     adapt_exact_scale, check_exact_scale};

}  // namespace attnfuzz::relations
