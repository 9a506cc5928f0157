// The parts of a case. A mutation draws a part anew; a crossover takes a whole part from the other parent.
//
//   for (const CrossoverGroup* group : crossover_groups())
//     if (rng.coin()) group->take(child, other);
#pragma once

#include <span>

#include "properties/case/features/feature.h"

namespace attnfuzz {

std::span<const CrossoverGroup* const> crossover_groups();

// A copy of `c` in which one group is drawn anew for the sizes of `c`. The weights of the parts decide which
// one. If a few dozen draws all give the same part, the copy equals `c`. The result is not tidied and may
// be illegal.
Case redraw(const Case& c, const GeneratorConfig& config, Rng& rng);

}  // namespace attnfuzz
