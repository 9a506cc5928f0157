// The layout of tensors must not change the result. One variant is dense. One has gaps and another order of
// dimensions. In the third, each tensor is a view of a larger one, like interleaved K and V. In some cases only
// one tensor is such a view, and its heads or batch entries are an odd number of elements apart; a kernel may
// refuse this odd view. If a kernel declares its layouts, every variant keeps to them. A variant that equals
// the case is not run. Tensors with strides of 0 keep them, because storing them in full is another problem.
#include "properties/case/places/geometry.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

// The tensors of the case's operation that may be moved.
std::vector<TensorId> moved_in(const Case& c) {
  std::vector<TensorId> ids;
  std::ranges::copy_if(kMovedTensors, std::back_inserter(ids),
                       [&](TensorId t) { return in_problem(spec_of(t), c.problem.features); });
  return ids;
}

// Increases the outermost dimension's stride by `by` elements.
void step_further(TensorId tensor, int64_t by, Case& c) {
  if (const int64_t step = step_without_spread(c, tensor))
    c.layout[static_cast<size_t>(tensor)].spread = step + by;
}

Case views_of(const Case& dense) {
  Case c = dense;
  for (const TensorId tensor : moved_in(dense)) step_further(tensor, 8 * (1 + static_cast<int64_t>(tensor)), c);
  return c;
}

// Chooses one tensor by the case's data. If it has several batch entries or heads, puts them an odd number of
// elements apart. Otherwise the case stays dense.
Case odd_view_of(const Case& dense) {
  Case c = dense;
  const uint64_t n = choice(dense, 1);
  const std::vector<TensorId> moved = moved_in(dense);
  const TensorId tensor = moved[n % moved.size()];
  const std::optional<Geometry> g = geometry(dense, tensor);
  if (!g || (g->size[0] < 2 && g->size[1] < 2)) return c;
  if (n / moved.size() % 2 == 1) c.layout[static_cast<size_t>(tensor)].order = {1, 0, 2};
  step_further(tensor, 1 + step_without_spread(c, tensor) % 2, c);
  return c;
}

void check_layout(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case dense = variant_of(base->c);
  dense.layout = {};
  dense = trial.inside(dense);
  Case loose = dense;
  for (const TensorId tensor : moved_in(dense)) {
    const int n = static_cast<int>(tensor);
    TensorLayout& to = loose.layout[n];
    to.order = {0, 2, 1};  // (batch, sequence, head)
    if (n % 2 == 0) to.order = {1, 0, 2};
    // Different for each tensor, so that one tensor's strides do not fit another.
    to.row_gap = 8 * (1 + n);
    to.junk_unit_strides = true;
  }
  const auto holds = [&](const Case& variant, const char* name) {
    const Case c = trial.inside(variant);
    if (c.layout == base->c.layout) return true;
    const Run* run = trial.run(c, name);
    return run && all_agree(trial, *base, *run, name);
  };
  if (!holds(dense, "dense layout") || !holds(loose, "gaps and permuted dimensions")) return;
  const Case odd = trial.inside(odd_view_of(dense));
  if (odd.layout != dense.layout && choice(dense, 2) % 2 == 0) {
    constexpr const char* kName = "a view whose heads or batch entries lie an odd number of elements apart";
    const Run* run = trial.run_if_taken(odd, kName);
    if (run) all_agree(trial, *base, *run, kName);
    if (run || trial.done()) return;
  }
  holds(views_of(dense), "views of something larger");
}

}  // namespace

extern const Property layout = {.name = "layout",
                                .statement = "another memory layout of the same values gives the same result",
                                .adapt = any_case,
                                .check = check_layout,
                                .operation = nullptr,
                                .packed = true,
                                .kv8 = true,
                                .key_blocks = true};

}  // namespace attnfuzz::relations
