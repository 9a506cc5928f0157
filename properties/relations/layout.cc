// Where tensors lie changes what is loaded from where, and nothing else. The
// variant is dense if the case is not, and the other way round has gaps, an odd
// offset and another order of dimensions.
#include "properties/relations/tools.h"

namespace attnfuzz::relations {
namespace {

void check(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case dense = variant_of(base->c);
  dense.layout = {};
  Case loose = dense;
  for (const TensorId tensor : {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO, TensorId::kLse}) {
    const int n = static_cast<int>(tensor);
    TensorLayout& to = loose.layout[n];
    to.order = {0, 2, 1};  // (batch, sequence, head)
    if (n % 2 == 0) to.order = {1, 0, 2};
    // Different for each, so that one tensor's strides do not fit another.
    to.row_gap = 8 * (1 + n);
    to.junk_unit_strides = true;
  }
  const struct {
    const char* name;
    const Case& c;
  } variants[] = {{"dense layout", dense}, {"gaps and permuted dimensions", loose}};
  for (const auto& variant : variants) {
    if (variant.c.layout == base->c.layout) continue;
    const Run* run = trial.run(variant.c, variant.name);
    if (!run || !all_agree(trial, *base, *run, variant.name)) return;
  }
}

}  // namespace

extern const Property layout = {"layout", "another memory layout of the same values gives the same result",
                                any_case, check};

}  // namespace attnfuzz::relations
