// Mutation and crossover: how a campaign moves from an interesting case to its neighbours.
//
// A mutation changes one, two or four things of a case and leaves the rest alone. Two in five changes draw
// a part anew by the draw's own functions (draw.h), for the sizes that the case has. The others are small
// steps: a size is doubled, halved, moved by one or moved to a tile's border; two lengths are swapped; a
// call is added or removed; a planted value moves; an axis gets another class; seldom a feature is turned
// off. Most features stay on from one generation to the next, so a bug that needs several features is
// reached one feature at a time.
//
//   Case next = mutate(c, config, 17);          // the same for the same (c, config, 17), always
//   Case child = cross(c, other, config, 18);   // each part is c's or other's
//
// The result is legal, has no remap, and costs no more than most() of afford.h allows. All but a few percent of
// the results have nothing that config.refused names. The result differs from the input unless no legal case is
// near.
#pragma once

#include <cstdint>

#include "properties/case/case.h"
#include "properties/draw/generator.h"

namespace attnfuzz {

Case mutate(const Case& c, const GeneratorConfig& config, uint64_t seed);

// Combines some parts of `a` and some of `b`. If no new legal case results, returns a mutation of `a`.
Case cross(const Case& a, const Case& b, const GeneratorConfig& config, uint64_t seed);

// True if a case costs no more than a drawn or mutated case may. A campaign checks cases from other sources
// with it. The case must be legal.
bool affordable(const Case& c, const GeneratorConfig& config);  // afford.h

}  // namespace attnfuzz
