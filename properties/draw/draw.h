// The draw, phase by phase: sizes, what may be seen, values, memory. What is drawn
// is the features' own (features/feature.h); generator.cc puts the phases together.
#pragma once

#include <cstdint>

#include "properties/case/features/feature.h"

namespace attnfuzz {

// The features of a phase; sizes within aim.work.
void draw_phase(Phase phase, const Aim& aim, Dice& dice, Case& c);
// One of a kernel's tile sizes; mostly the first, which is that of usual head dimensions.
int64_t a_tile(Dice& dice, const std::vector<int64_t>& tiles);
// More batch entries or heads than a grid has rows: whoever launches nothing
// leaves O unwritten. Too dear to be drawn often.
void draw_many_heads(Dice& dice, Case& c);
// Takes out what the kernel refuses, as far as it has been drawn; within so much work.
void strip_refused(const Refused& refused, Case& c, int64_t work = INT64_MAX);
// Moves what has been drawn into what the kernel declares, within aim.work.
void fit_domain(const Aim& aim, Case& c);
// Makes drawn sizes affordable; and once in a while one length beyond 16 bits.
void fit_sizes(const Aim& aim, Dice& dice, Problem& p);

}  // namespace attnfuzz
