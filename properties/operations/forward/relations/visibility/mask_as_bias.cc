// A boolean mask and an additive bias of 0 and -inf hide the same keys. Most kernels handle the two with
// different code, and each code must handle rows that see no key.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_mask_as_bias(Case& c, const KernelInfo&, std::string*) {
  Problem& p = c.problem;
  if (!p.mask) {
    // The mask hides the keys that the bias hid.
    p.mask = Mask{.visible = {.kind = PatternKind::kRandom, .parameter = 4, .seed = c.k.seed}, .broadcast = {}};
    if (p.bias && p.bias->finite.kind != PatternKind::kAll) p.mask->visible = p.bias->finite;
    if (p.bias) p.mask->broadcast = p.bias->broadcast;
  }
  if (p.bias) {
    p.bias->finite = Pattern{};
    p.bias->broadcast = p.mask->broadcast;
    if (p.bias->kind == BiasKind::kMasking) p.bias->kind = BiasKind::kZero;
  }
  drop_planted(c, TensorId::kBias);
  fit_memory(c);
  return true;
}

void check_mask_as_bias(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  Problem& p = other.problem;
  if (!p.bias) p.bias = Bias{};
  p.bias->finite = p.mask->visible;
  p.bias->broadcast = p.mask->broadcast;
  p.mask.reset();
  if (const Run* run = trial.run(other, "mask written as a bias")) {
    trial.all_within(*base, *run, "mask against bias");
  }
}

}  // namespace

extern const Property mask_as_bias = {
    .name = "mask_as_bias",
    .statement = "a boolean mask equals a bias that is -inf where the mask hides",
    .adapt = adapt_mask_as_bias,
    .check = check_mask_as_bias,
    .packed = true,
    .kv8 = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
