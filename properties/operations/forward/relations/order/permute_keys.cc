// Attention is a sum over a set of keys, so the keys may be in any order, as long as V, mask and bias are
// permuted with them. Permuted keys fall into other tiles and splits.
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

bool adapt_permute_keys(Case& c, const KernelInfo&, std::string*) {
  drop_slopes(c);  // a slope depends on the position of a key
  Problem& p = c.problem;
  p.causal = false;
  p.window_left = p.window_right = -1;
  // With key lengths each entry permutes within its own length. So entries cannot share a mask, a bias, K, V or
  // scales.
  if (p.key_lengths && p.mask) p.mask->broadcast.batch = false;
  if (p.key_lengths && p.bias) p.bias->broadcast.batch = false;
  if (p.key_lengths) c.once.k.batch = c.once.v.batch = false;
  for (KvScales Kv8::* of : {&Kv8::k, &Kv8::v}) {
    if (!p.kv8 || !p.key_lengths) continue;
    KvScales& scales = (*p.kv8).*of;
    scales.entries = scales.entries || scales.keys;
  }
  fit_memory(c);
  return true;
}

void check_permute_keys(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  // The order is reversed and rotated by a random amount, within each batch entry's length.
  const int64_t start = static_cast<int64_t>(choice(base->c, 1) & 0xffff);
  other.remap.key = Axis{.multiply = -1, .add = start, .modulus = Axis::kKeyLength};
  if (const Run* run = trial.run(other, "keys permuted"))
    trial.all_within(*base, *run, "keys in another order");
}

}  // namespace

extern const Property permute_keys = {
    .name = "permute_keys",
    .statement = "without causality and windows, permuting keys with V, mask and bias changes nothing",
    .adapt = adapt_permute_keys,
    .check = check_permute_keys,
    .kv8 = true};

}  // namespace attnfuzz::relations
