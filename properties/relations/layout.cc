// Where tensors lie changes what is loaded from where, and nothing else. One
// variant is dense, one has gaps and another order of dimensions, and in one
// each tensor is a view of something larger, as K and V are that lie in turns.
// What is stored once for several stays so: it is another problem that has it whole.
#include "properties/case/geometry.h"
#include "properties/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr TensorId kMoved[] = {TensorId::kQ, TensorId::kK, TensorId::kV, TensorId::kO, TensorId::kLse};

// The outermost dimension steps further than all that is inside it.
Case views_of(const Case& dense) {
  Case c = dense;
  for (const TensorId tensor : kMoved) {
    const std::optional<Geometry> g = geometry(dense, tensor);
    if (!g || g->empty()) continue;
    int64_t inside = 1;
    for (int n = 2; n >= 0; --n) {
      if (g->size[n] > 1) inside = g->stride[n];
    }
    c.layout[static_cast<size_t>(tensor)].spread = inside + 8 * (1 + static_cast<int64_t>(tensor));
  }
  return c;
}

void check(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case dense = variant_of(base->c);
  dense.layout = {};
  Case loose = dense;
  for (const TensorId tensor : kMoved) {
    const int n = static_cast<int>(tensor);
    TensorLayout& to = loose.layout[n];
    to.order = {0, 2, 1};  // (batch, sequence, head)
    if (n % 2 == 0) to.order = {1, 0, 2};
    // Different for each, so that one tensor's strides do not fit another.
    to.row_gap = 8 * (1 + n);
    to.junk_unit_strides = true;
  }
  const Case views = views_of(dense);
  const struct {
    const char* name;
    const Case& c;
  } variants[] = {
      {"dense layout", dense}, {"gaps and permuted dimensions", loose}, {"views of something larger", views}};
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
