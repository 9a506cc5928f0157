// Mutation and crossover of cases: how a campaign moves from a case that taught
// it something to the ones around it.
//
// A mutation changes one, two or four things of a case and leaves the rest alone. Two in
// five draw a part anew, by the draw's own functions (draw.h) and so with its
// bias towards edges, for the sizes that the case has; the others are steps: a
// size doubled, halved, moved by one or on to a tile's border, two lengths
// swapped, a call added or taken away, a planted value moved, a class of the table of axes
// made, and now and then a feature turned off. What is on mostly stays on from one generation to the next:
// triggers that are conjunctions are reached one part at a time.
//
//   Case next = mutate(c, config, 17);          // the same for the same (c, config, 17), always
//   Case child = cross(c, other, config, 18);   // each part is c's or other's
//
// What comes out is always legal (illegal() says nothing), has no remap, asks for no more
// multiply-adds than config.work (in whole tiles, six times that), and spares what config.refused names in all
// but a few cases. It differs from the input unless nothing near it is legal.
#pragma once

#include <cstdint>

#include "properties/case/case.h"
#include "properties/draw/generator.h"

namespace attnfuzz {

Case mutate(const Case& c, const GeneratorConfig& config, uint64_t seed);

// Parts of `a` with parts of `b`; where that gives no new legal case, a mutation of `a`.
Case cross(const Case& a, const Case& b, const GeneratorConfig& config, uint64_t seed);

// Whether a case costs no more than a drawn or mutated one may: what a campaign asks of a case
// that someone else wrote. The case must be legal.
bool affordable(const Case& c, const GeneratorConfig& config);  // afford.h

}  // namespace attnfuzz
