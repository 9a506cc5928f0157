// The parts that a case is made of: what a mutation draws anew or a crossover
// takes from the other parent, each as a whole.
//
//   for (const Part* part : parts())
//     if (rng.coin()) part->take(child, other);
#pragma once

#include <span>

#include "properties/case/feature.h"

namespace attnfuzz {

std::span<const Part* const> parts();

// A copy of `c` in which one part is drawn anew for the sizes of `c`, the parts by their
// weights. The same as `c` if no draw of a few dozen differs. Not tidied, perhaps not legal.
Case redraw(const Case& c, const GeneratorConfig& config, Rng& rng);

}  // namespace attnfuzz
