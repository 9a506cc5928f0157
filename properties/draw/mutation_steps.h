// Steps of a mutation: small changes of what a case already has.
#pragma once

#include "properties/case/case.h"
#include "properties/case/generator_config.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// One size or bound of the case doubled, halved, moved by one, put on a tile's
// border or made equal to another.
void step_number(const GeneratorConfig& config, Rng& rng, Case& c);
// Lengths or head dimensions swapped, heads made equal, a self-attention made a decode.
void step_shape(const GeneratorConfig& config, Rng& rng, Case& c);
// A call more or less, its workspace dirty or its stream another.
void step_calls(Rng& rng, Case& c);
// One of the features' own steps (features/feature.h): of values and patterns.
void step_values(const GeneratorConfig& config, Rng& rng, Case& c);
// One axis made to be of another class, as likely of one as of the next (axes/axis.h).
void step_class(const GeneratorConfig& config, Rng& rng, Case& c);
// One feature turned off, of those that there are.
void step_off(Rng& rng, Case& c);

}  // namespace attnfuzz
