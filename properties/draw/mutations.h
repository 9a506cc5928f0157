// The small steps of a mutation: each changes something that the case already has.
#pragma once

#include "properties/case/case.h"
#include "properties/case/features/generator_config.h"
#include "properties/case/rng.h"

namespace attnfuzz {

// Doubles, halves or moves one size or bound by one, moves it to a tile's border, or makes it equal to
// another.
void step_number(const GeneratorConfig& config, Rng& rng, Case& c);
// Swaps lengths or head dimensions, makes heads equal, or turns self-attention into a decode.
void step_shape(const GeneratorConfig& config, Rng& rng, Case& c);
// Adds or removes a call, or changes its workspace or its stream.
void step_calls(Rng& rng, Case& c);
// Runs one step of a feature (case/features/feature.h): it changes values or patterns.
void step_values(const GeneratorConfig& config, Rng& rng, Case& c);
// Gives one axis another class; all axes are equally likely (axes/axis.h).
void step_class(const GeneratorConfig& config, Rng& rng, Case& c);
// Turns off one feature that the case has.
void step_off(Rng& rng, Case& c);

}  // namespace attnfuzz
