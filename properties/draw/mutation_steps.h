// Steps of a mutation: small changes of what a case already has.
#pragma once

#include "properties/case/case.h"
#include "properties/draw/dice.h"
#include "properties/draw/generator.h"

namespace attnfuzz {

// One size or bound of the case doubled, halved, moved by one, put on a tile's
// border or made equal to another.
void step_number(const Aim& aim, Dice& dice, Case& c);
// Lengths or head dimensions swapped, heads made equal, a self-attention made a decode.
void step_shape(const Aim& aim, Dice& dice, Case& c);
// A call more or less, its workspace dirty or its stream another.
void step_calls(Dice& dice, Case& c);
// Seeds, exponents, a pattern's kind, a planted value moved, copied or dropped.
void step_values(const Aim& aim, Dice& dice, Case& c);
// One feature turned off; causality and NaN beyond lengths on as well.
void step_off(Dice& dice, Case& c);

}  // namespace attnfuzz
