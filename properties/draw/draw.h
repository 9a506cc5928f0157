// The parts of a draw, one file each: sizes, what may be seen, values, memory.
// generator.cc puts them together.
#pragma once

#include "properties/case/case.h"
#include "properties/draw/dice.h"
#include "properties/draw/generator.h"

namespace attnfuzz {

// One of a kernel's tile sizes; mostly the first, which is that of usual head dimensions.
int64_t a_tile(Dice& dice, const std::vector<int64_t>& tiles);

// Lengths, heads, head dimensions, format, splits; within aim.work.
void draw_sizes(const Aim& aim, Dice& dice, Case& c);
// More batch entries or heads than a grid has rows: whoever launches nothing
// leaves O unwritten. Too dear to be drawn often.
void draw_many_heads(Dice& dice, Case& c);
// Causal, windows, key lengths, bias, mask.
void draw_visibility(const Aim& aim, Dice& dice, Case& c);
// Fills, scale, softcap, planted values.
void draw_values(Dice& dice, Case& c);
// Takes out what the kernel refuses, as far as it has been drawn.
void strip_refused(const Refused& refused, Case& c);
// Layouts, guards, environment, calls.
void draw_memory(const Aim& aim, Dice& dice, Case& c);

}  // namespace attnfuzz
