// The parts of a case. A mutation draws a part anew; a crossover takes a whole part from the other parent.
//
//   for (const Part* part : parts())
//     if (rng.coin()) part->take(child, other);
#pragma once

#include <span>

#include "properties/case/feature.h"

namespace attnfuzz {

std::span<const Part* const> parts();

// A copy of `c` in which one part is drawn anew for the sizes of `c`. The weights of the parts decide which
// one. If a few dozen draws all give the same part, the copy equals `c`. The result is not tidied and may
// be illegal.
Case redraw(const Case& c, const GeneratorConfig& config, Rng& rng);

}  // namespace attnfuzz
