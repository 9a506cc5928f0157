// A combination is symmetric: if the three sides and their gates are permuted, the result is the same, up to
// the order of a sum.
#include "properties/case/features/shrink_toggles.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation nsa_combine;
}

namespace attnfuzz::relations {
namespace {

constexpr int64_t kMostRows = 512;  // each row needs a planted value for each gate

bool adapt_combine_permuted(Case& c, const KernelInfo&, std::string*) {
  if (RowSpace(c.problem).count() <= kMostRows) return true;
  c.gates = Fill{};  // all gates equal: then they need not be permuted
  drop_planted(c, TensorId::kGates);
  return true;
}

// Side s becomes side s + 1, and the last becomes the first.
void rotate_sides(Case& c) {
  const auto layout = [&c](TensorId t) -> TensorLayout& { return c.layout[static_cast<size_t>(t)]; };
  for (const TensorId t : {TensorId::kO1, TensorId::kO2}) {
    std::swap(c.*fill_of(t), c.o3);
    std::swap(layout(t), layout(TensorId::kO3));
  }
  for (Planted& x : c.planted) {
    x.tensor = x.tensor == TensorId::kO1   ? TensorId::kO2
               : x.tensor == TensorId::kO2 ? TensorId::kO3
               : x.tensor == TensorId::kO3 ? TensorId::kO1
                                           : x.tensor;
  }
}

void rotate_gates(const Case& from, Case& c) {
  const RowSpace rows(c.problem);
  if (rows.count() > kMostRows) return;
  drop_planted(c, TensorId::kGates);
  for (int64_t row = 0; row < rows.count(); ++row) {
    const Row at = rows.at(row);
    uint32_t gates[3] = {};
    recipe_row(from, TensorId::kGates, at.b, at.h, at.i, gates);
    const int64_t bytes = element_bytes(c.problem, TensorId::kGates);
    for (int64_t s = 0; s < 3; ++s) {
      uint32_t bits = 0;
      std::memcpy(&bits, reinterpret_cast<const std::byte*>(gates) + s * bytes, static_cast<size_t>(bytes));
      c.planted.push_back({TensorId::kGates, at.b, at.h, at.i, (s + 1) % 3, bits});
    }
  }
  for (Planted x : from.planted) {  // they replace what the recipe has
    x.d = (x.d + 1) % 3;
    if (x.tensor == TensorId::kGates) c.planted.push_back(x);
  }
}

void check_combine_permuted(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  Case other = variant_of(base->c);
  rotate_sides(other);
  rotate_gates(base->c, other);
  tidy(other);
  if (const Run* run = trial.run(other, "sides in another order"))
    trial.all_within(*base, *run, "sides in another order");
}

}  // namespace

extern const Property combine_permuted = {.name = "combine_permuted",
                                          .statement = "the sides of a combination may stand in any order",
                                          .adapt = adapt_combine_permuted,
                                          .check = check_combine_permuted,
                                          .operation = &operations::nsa_combine};

}  // namespace attnfuzz::relations
