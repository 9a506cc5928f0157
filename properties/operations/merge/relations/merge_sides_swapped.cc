// A merge is symmetric: with the sides swapped it gives the same result, up to the order of a sum.
#include "properties/case/places/geometry.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation merge;
}

namespace attnfuzz::relations {
namespace {

void swap_sides(Case& c) {
  std::swap(c.o1, c.o2);
  std::swap(c.lse1, c.lse2);
  const auto layout = [&c](TensorId t) -> TensorLayout& { return c.layout[static_cast<size_t>(t)]; };
  // A merge in place has its first side where O and LSE lie.
  for (const auto& [first, second] :
       {std::pair{TensorId::kO1, TensorId::kO2}, {TensorId::kLse1, TensorId::kLse2}}) {
    if (home_of(c, first) == first) std::swap(layout(first), layout(second));
  }
  for (Planted& x : c.planted) {
    if (x.tensor == TensorId::kO1 || x.tensor == TensorId::kO2)
      x.tensor = x.tensor == TensorId::kO1 ? TensorId::kO2 : TensorId::kO1;
  }
}

// Only these patterns are the same with the sides swapped.
bool adapt_merge_sides_swapped(Case& c, const KernelInfo&, std::string*) {
  const bool symmetric = c.sides.kind == PatternKind::kAll || c.sides.kind == PatternKind::kNothing ||
                         c.sides.kind == PatternKind::kDeadRows;
  if (!symmetric) c.sides = Pattern{.kind = PatternKind::kDeadRows, .parameter = 2};
  // A planted LSE may contradict the pattern.
  drop_planted(c, TensorId::kLse1);
  drop_planted(c, TensorId::kLse2);
  return true;
}

void check_merge_sides_swapped(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  swap_sides(other);
  if (const Run* run = trial.run(other, "sides swapped")) trial.all_within(*base, *run, "sides swapped");
}

}  // namespace

extern const Property merge_sides_swapped = {.name = "merge_sides_swapped",
                                             .statement = "the two sides of a merge may be swapped",
                                             .adapt = adapt_merge_sides_swapped,
                                             .check = check_merge_sides_swapped,
                                             .operation = &operations::merge};

}  // namespace attnfuzz::relations
